import Glibc

/// A failed system call: the name of the call and the error number.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    package let call: String
    package let code: Int32

    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }

    package var description: String { "\(call): \(reason)" }

    package var reason: String { unsafe String(cString: strerror(code)) }

    static let outOfMemory = ENOMEM
    static let protocolError = EPROTO
    static let timedOut = ETIMEDOUT

    /// Whether the call failed because another socket uses the address.
    package var isAddressInUse: Bool { code == EADDRINUSE }

    /// Whether the system call failed because the address does not belong to the machine.
    package var isAddressUnknown: Bool { code == EADDRNOTAVAIL }

    package var isPermissionDenied: Bool { code == EACCES || code == EPERM }

    /// Whether the call failed because the disk is full or the quota is used up.
    package var isDiskFull: Bool { code == ENOSPC || code == EDQUOT }
}
