import Addressing
package import Bytes
import SIPGrammar

/// By which hosts a Request-URI may name the upstream. A phone that redials from its list of calls dials what the PBX has
/// written into From, which is often the PBX's own address (T9.19).
package enum UpstreamHosts: Hashable, Sendable {
    /// The host of the setting `upstream`, and the addresses that it was looked up to.
    case ofUpstream
    /// These, in lower case.
    case listed([ByteString])

    /// - Parameters:
    ///   - uri: a Request-URI whose host is not ours. Of the upstream's ports it may have those of SIP and the one that the
    ///     setting names, as inside dialogs (T20.4).
    ///   - upstream: the setting.
    ///   - places: what the upstream's name stands for, as far as it is known.
    /// - Returns: whether the URI names the upstream.
    func name(_ uri: SIPURI, of upstream: NextHop?, at places: [Endpoint]) -> Bool {
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
