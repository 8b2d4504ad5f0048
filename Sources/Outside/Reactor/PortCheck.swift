package import Addressing

/// Checks whether an address is free for listening.
package enum PortCheck {
    /// Checks whether an address is free, by binding the address for a moment.
    ///
    /// - Returns: why the address cannot be bound; `nil` if the address can be bound.
    package static func obstacle(to endpoint: Endpoint, isStream: Bool) -> SystemError? {
        do throws(SystemError) {
            let socket = try System.boundSocket(isStream ? System.stream : System.datagram, to: endpoint)
            // For the check, a stream socket must also listen, because two sockets can be bound to one port, but only
            // one of them can listen.
            if isStream { try System.listen(socket.number, backlog: 1) }
            return nil
        } catch {
            return error
        }
    }
}
