package import Addressing

/// Whether a place to listen on is free.
package enum PortCheck {
    /// Takes the place for a moment.
    ///
    /// - Returns: why it cannot be taken; `nil` when it can.
    package static func obstacle(to endpoint: Endpoint, isStream: Bool) -> SystemError? {
        do throws(SystemError) {
            let socket = try System.boundSocket(isStream ? System.stream : System.datagram, to: endpoint)
            // Two may be bound to a port where only one can listen.
            if isStream { try System.listen(socket.number, backlog: 1) }
            return nil
        } catch {
            return error
        }
    }
}
