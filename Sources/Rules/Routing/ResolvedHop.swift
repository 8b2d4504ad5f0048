package import Addressing
import SIPGrammar

/// One address of a next hop, and the transport to this address.
package struct ResolvedHop: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint
    /// Whether the URI or the settings demand the transport, even for a large request (RFC 3261 section 18.1.1).
    package let isFixed: Bool
    /// The number of the host name that the server's certificate must prove.
    package let server: ServerNumber

    package init(
        transport: Transport, endpoint: Endpoint, isFixed: Bool = false, server: ServerNumber = .none
    ) {
        self.transport = transport
        self.endpoint = endpoint
        self.isFixed = isFixed
        self.server = server
    }

    /// Whether the hop and the flow lead to the same server. A server may have different ports for different
    /// transports.
    package func isSameServer(as flow: Flow) -> Bool {
        endpoint.address == flow.remote.address && (endpoint.port == flow.remote.port || transport != flow.transport)
    }

    package var fixed: ResolvedHop {
        ResolvedHop(transport: transport, endpoint: endpoint, isFixed: true, server: server)
    }
}
