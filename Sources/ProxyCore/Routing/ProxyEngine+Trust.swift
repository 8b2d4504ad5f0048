package import Addressing

/// Who is a PBX, an edge or another peer that is believed: by its address, or by the name that its certificate proves.
extension ProxyEngine {
    package func isTrusted(_ flow: Flow) -> Bool {
        if isTrusted(flow.remote) { return true }
        guard !provedNames.isEmpty, flow.isConnection, let names = provedNames[flow.connection] else { return false }
        return settings.trusted.contains { peer in names.contains { peer.matches(name: $0) } }
    }

    /// By its address alone.
    package func isTrusted(_ source: Endpoint) -> Bool { settings.trusted.contains { $0.matches(source) } }

    /// The peer of a connection has proved by its certificate that it has these names, which are in lower case (RFC 5922).
    ///
    /// - Returns: whether it is trusted.
    package func namesProved(_ names: [String], on flow: Flow) -> Bool {
        provedNames[flow.connection] = names.isEmpty ? nil : names
        return isTrusted(flow)
    }
}
