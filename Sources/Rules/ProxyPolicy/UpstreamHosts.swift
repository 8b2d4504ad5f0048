package import Addressing
package import Bytes
package import SIPGrammar

/// The hosts that stand for the upstream in a Request-URI (T9.19).
///
/// A phone that calls back from its list of calls uses the From that the PBX wrote, and the PBX often writes its own
/// address as the host in From.
package enum UpstreamHosts: Hashable, Sendable {
    /// The host in the setting `upstream`, and the addresses of that host.
    case ofUpstream
    /// The hosts that the settings list, in lower case.
    case listed([ByteString])

    /// Whether a Request-URI whose host is not this daemon names the upstream.
    ///
    /// The port of the URI must be 5060, 5061, the port in the setting, or the port of a resolved address, as inside
    /// dialogs (T20.4).
    package func name(_ uri: SIPURI, of upstream: NextHop?, at places: [Endpoint]) -> Bool {
        guard uri.scheme == .sip || uri.scheme == .sips, let upstream else { return false }
        if let port = uri.port, port != 5060, port != 5061, port != upstream.port {
            guard places.contains(where: { $0.port == port }) else { return false }
        }
        switch self {
        case .listed(let hosts): return hosts.contains { $0.equalsIgnoringCase(uri.host) }
        case .ofUpstream:
            if uri.host.equalsIgnoringCase(upstream.host) { return true }
            guard let address = uri.host.withSpan({ IPAddress(ascii: $0) }) else { return false }
            return upstream.numeric?.1.address == address || places.contains { $0.address == address }
        }
    }
}
