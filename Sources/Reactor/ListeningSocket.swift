package import Addressing

/// A listening socket for a C library that accepts by itself; closed with this value unless given away.
package struct ListeningSocket: ~Copyable {
    private let descriptor: Descriptor
    /// The address that the kernel bound; `0.0.0.0:0` on a Unix-domain socket.
    package let local: Endpoint

    private static let backlog: Int32 = 1024

    package init(boundTo endpoint: Endpoint) throws(SystemError) {
        try self.init(System.boundSocket(System.stream, to: endpoint))
    }

    /// On a socket file that only this user may connect to; removing it is the caller's, see ``removeFile(at:)``.
    package init(unixPath: String) throws(SystemError) {
        try self.init(System.boundUnixSocket(at: unixPath))
    }

    private init(_ descriptor: consuming Descriptor) throws(SystemError) {
        try System.listen(descriptor.number, backlog: Self.backlog)
        local = System.localEndpoint(descriptor.number) ?? Endpoint(.anyV4, 0)
        self.descriptor = descriptor
    }

    /// Gives the descriptor to an owner that will close it.
    package consuming func release() -> Int32 { descriptor.release() }

    package static func removeFile(at path: String) { System.removeFile(path) }
}
