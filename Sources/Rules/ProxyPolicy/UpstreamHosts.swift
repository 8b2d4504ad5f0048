package import Addressing
package import Bytes
package import SIPGrammar

/// The hosts in a Request-URI that stand for the upstream (T9.19).
///
/// A phone that calls back dials the PBX's From, which often has the PBX's own address as host.
package enum UpstreamHosts: Hashable, Sendable {
    /// The host in the setting `upstream`, and the host's addresses.
    case ofUpstream
    /// The hosts that the settings list, in lower case.
    case listed([ByteString])

    /// Whether a Request-URI with a foreign host names the upstream.
    ///
    /// The URI's port must be 5060, 5061, the port in the setting, or the port of a resolved address, as inside dialogs
    /// (T20.4).
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
