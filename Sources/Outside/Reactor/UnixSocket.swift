import Glibc

/// Examines the socket file of another process.
package enum UnixSocket {
    /// Whether a process listens on the socket at the given path.
    ///
    /// - Throws: an error if the answer cannot be determined, for example for lack of permission.
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

extension UnixSocket {
    /// The id of the process that listens on the Unix socket at the path; `nil` if no process listens.
    package static func listener(at path: String) -> Int32? {
        guard let socket = try? System.connectedUnixSocket(to: path) else { return nil }
        var found = Credentials()
        var length = socklen_t(MemoryLayout<Credentials>.size)
        guard unsafe getsockopt(socket.number, SOL_SOCKET, SO_PEERCRED, &found, &length) == 0, found.process > 0 else {
            return nil
        }
        return found.process
    }

    /// The kernel's `struct ucred`, which glibc declares only with `_GNU_SOURCE`.
    private struct Credentials {
        var process: Int32 = 0
        var user: UInt32 = 0
        var group: UInt32 = 0
    }
}
