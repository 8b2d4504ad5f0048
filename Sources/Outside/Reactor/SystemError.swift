import Glibc

/// A system call that failed, with its name and error number.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    package let call: String
    /// The `errno` value.
    package let code: Int32

    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }

    package var description: String { "\(call): \(reason)" }

    /// The system's words for the number, such as "Permission denied".
    package var reason: String { unsafe String(cString: strerror(code)) }

    static let outOfMemory = ENOMEM
    static let protocolError = EPROTO

    /// The address is taken by another socket.
    package var isAddressInUse: Bool { code == EADDRINUSE }

    /// It is not one of this machine's.
    package var isAddressUnknown: Bool { code == EADDRNOTAVAIL }

    package var isPermissionDenied: Bool { code == EACCES || code == EPERM }
}
