internal import Glibc

/// A system call that failed, with its name and error number.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    package let call: String
    /// The `errno` value.
    package let code: Int32

    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }

    package var description: String { "\(call): \(unsafe String(cString: strerror(code)))" }

    /// The address is taken by another socket.
    package var isAddressInUse: Bool { code == EADDRINUSE }

    /// No descriptor or kernel memory is left; waiting may help, trying again at once does not.
    package var isExhaustion: Bool { code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM }
}
