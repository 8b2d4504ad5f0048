package import Addressing
import SIPGrammar

/// One address a name stands for.
package struct ResolvedHop: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint
    /// The transport was asked for: a large request does not go by another (RFC 3261 section 18.1.1).
    package let isFixed: Bool
    /// Whose certificate it must show, where the transport has any.
    package let server: ServerNumber

    package init(
        transport: Transport, endpoint: Endpoint, isFixed: Bool = false, server: ServerNumber = .none
    ) {
        self.transport = transport
        self.endpoint = endpoint
        self.isFixed = isFixed
        self.server = server
    }

    /// Whether it is the place that the flow leads to, by whatever transport: a server has a port for each.
    func isSameServer(as flow: Flow) -> Bool {
        endpoint.address == flow.remote.address && (endpoint.port == flow.remote.port || transport != flow.transport)
    }

    var fixed: ResolvedHop {
        ResolvedHop(transport: transport, endpoint: endpoint, isFixed: true, server: server)
    }
}
