package import Addressing
import Bytes
import Registration
import SIPGrammar

/// Trust in PBXs, edges and other peers: by their address, or by the name that their certificate proves.
extension ProxyEngine {
    /// Whether the flow's peer is trusted by its address or its certificate. Over WebSocket only the certificate
    /// counts: the address may be that of a reverse proxy, which forwards requests of any web page.
    package func isTrusted(_ flow: Flow) -> Bool {
        if !flow.transport.isWebSocket, isTrusted(flow.remote) { return true }
        guard !flows.provedNames.isEmpty, flow.isConnection, let names = flows.provedNames[flow.connection] else {
            return false
        }
        return settings.trusted.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    /// Whether the address alone makes the peer trusted.
    package func isTrusted(_ source: Endpoint) -> Bool {
        // A loop over indices: this method runs a dozen times per call, and a loop over the elements would retain the
        // list and each element.
        for index in settings.trusted.indices where settings.trusted[index].matches(source) { return true }
        return false
    }

    /// The peer of a connection has proved these names by its certificate (RFC 5922). The names are in lower case.
    ///
    /// - Returns: whether the peer is trusted.
    package func namesProved(_ names: [String], on flow: Flow) -> Bool {
        flows.provedNames[flow.connection] = names.isEmpty ? nil : names
        return isTrusted(flow)
    }

    /// A trusted peer allows us to send our requests by the connection that the peer opened (RFC 5923). The peer's Via
    /// has `alias`, and the port at which the peer would be called otherwise.
    ///
    /// Over TLS the peer must have proved the name under which we call it. Today that can only be the upstream's name.
    func noteReuse(_ incoming: IncomingRequest) {
        let (flow, via) = (incoming.flow, incoming.request.via)
        guard incoming.isTrusted, flow.isConnection, !flow.transport.isWebSocket, via.parameters.contains("alias")
        else {
            return
        }
        var server = ServerNumber.none
        if flow.transport.isSecure {
            guard let name = settings.upstream?.host.string.lowercased(), upstreamWatch.server != .none,
                flows.provedNames[flow.connection]?.contains(name) == true
            else { return }
            server = upstreamWatch.server
        }
        let port = via.port ?? (flow.transport.isSecure ? 5061 : 5060)
        act(.reuse(flow, as: Endpoint(flow.remote.address, port), server))
    }
}
