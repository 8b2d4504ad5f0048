package import Addressing

package enum PortCheck {
    /// Tests whether an address is free for listening, by binding it for a moment.
    ///
    /// - Returns: why the address cannot be bound; `nil` if the address can be bound.
    package static func obstacle(to endpoint: Endpoint, isStream: Bool) -> SystemError? {
        do throws(SystemError) {
            let socket = try System.boundSocket(isStream ? System.stream : System.datagram, to: endpoint)
            // A stream socket must also listen, because two sockets can be bound to one port, but only one can listen.
            if isStream { try System.listen(socket.number, backlog: 1) }
            return nil
        } catch {
            return error
        }
    }
}
