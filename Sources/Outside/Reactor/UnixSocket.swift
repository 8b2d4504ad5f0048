import Glibc

/// The socket file of another process.
package enum UnixSocket {
    /// Whether a process listens on the socket.
    ///
    /// - Throws: if this cannot be determined, for example without permission.
    package static func isListening(at path: String) throws(SystemError) -> Bool {
        do throws(SystemError) {
            _ = try System.connectedUnixSocket(to: path)
            return true
        } catch {
            switch error.code {
            case ENOENT, ENOTDIR, ECONNREFUSED: return false
            default: throw error
            }
        }
    }
}
