import Glibc

/// A socket file, as others find it.
package enum UnixSocket {
    /// Whether somebody listens there.
    ///
    /// - Throws: what keeps us from knowing, such as missing rights.
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
