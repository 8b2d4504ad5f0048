package import Addressing
import Bytes
import Registration
import SIPGrammar

/// Who is a PBX, an edge or another peer that is believed: by its address, or by the name that its certificate proves.
extension ProxyEngine {
    /// By its address or its certificate; over WebSocket by its certificate alone, since the address may be that of a reverse
    /// proxy, behind which any web page can be.
    package func isTrusted(_ flow: Flow) -> Bool {
        if !flow.transport.isWebSocket, isTrusted(flow.remote) { return true }
        guard !flows.provedNames.isEmpty, flow.isConnection, let names = flows.provedNames[flow.connection] else {
            return false
        }
        return settings.trusted.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    /// By its address alone.
    package func isTrusted(_ source: Endpoint) -> Bool {
        // By index: it is asked a dozen times in each call, and a loop over the elements holds the list and each of them.
        for index in settings.trusted.indices where settings.trusted[index].matches(source) { return true }
        return false
    }

    /// The peer of a connection has proved by its certificate that it has these names, which are in lower case (RFC 5922).
    ///
    /// - Returns: whether it is trusted.
    package func namesProved(_ names: [String], on flow: Flow) -> Bool {
        flows.provedNames[flow.connection] = names.isEmpty ? nil : names
        return isTrusted(flow)
    }

    /// A trusted peer lets us send our requests by the connection that it has opened (RFC 5923): its Via has `alias`, and
    /// names the port where it would be called otherwise.
    ///
    /// Over TLS it must have proved the name by which it is called: for now that is the upstream's.
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
