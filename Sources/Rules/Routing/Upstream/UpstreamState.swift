package import Addressing
package import ProxyPolicy
import SIPGrammar
package import Telemetry
package import Timekeeping

/// The state of the check of the upstream, and of the check of the daemon's advertised host name.
package struct UpstreamState: ~Copyable {
    package var health = UpstreamHealth(.off, isUsed: false, now: .distantPast)
    package var ownName = AdvertisedName(isUsed: false, now: .distantPast)
    /// The addresses of the upstream's host name from DNS look-ups.
    package private(set) var places: [Endpoint] = []
    /// The number of the upstream's host name. On a flow with this number, the peer's certificate must prove the host
    /// name.
    package private(set) var server = ServerNumber.none
    /// Whether the log has reported that a next hop is the daemon itself.
    private var hasToldOfOwnHop = false

    package var nextDeadline: Instant? {
        guard let health = health.nextDeadline, let name = ownName.nextDeadline else {
            return health.nextDeadline ?? ownName.nextDeadline
        }
        return min(health, name)
    }

    package init() {}

    /// Notes the upstream's addresses; a request from one of the addresses is treated as a request from the upstream.
    package mutating func resolved(to hops: [ResolvedHop]) {
        if let server = hops.first(where: { $0.server != .none })?.server { self.server = server }
        for hop in hops where !places.contains(hop.endpoint) { places.append(hop.endpoint) }
        let excess = places.count - Self.limit
        if excess > 0 { places.removeFirst(excess) }
    }

    /// Whether a source address belongs to the upstream, which the settings name by an address or a host name.
    ///
    /// - Parameters:
    ///   - source: the address from which a message came.
    ///   - upstream: the setting `upstream`.
    ///   - trusted: the setting `trusted`.
    /// - Returns: whether the message came from the upstream.
    package func isSource(_ source: Endpoint, of upstream: NextHop?, _ trusted: [TrustedPeer]) -> Bool {
        if let (_, endpoint) = upstream?.numeric { return endpoint.speaks(as: source, trusted) }
        return places.contains { $0.speaks(as: source, trusted) }
    }

    private static let limit = 64

    /// Removes addresses of this daemon from a hop's addresses, and logs the first removal as an error in the settings
    /// or in DNS.
    package mutating func withoutOurs(_ hops: [ResolvedHop], _ identity: LocalIdentity, _ log: Log) -> [ResolvedHop] {
        guard hops.contains(where: { identity.isOurs($0.transport, $0.endpoint) }) else { return hops }
        if !hasToldOfOwnHop {
            hasToldOfOwnHop = true
            log.error(
                "the next hop of a request is this daemon itself, so the daemon does not use this hop: correct the setting 'upstream', or the header fields Path and Route of the edge proxies",
                [.target: .text(hops.map { "\($0.transport.parameterName):\($0.endpoint)" }.joined(separator: " "))])
        }
        return hops.filter { !identity.isOurs($0.transport, $0.endpoint) }
    }
}

extension Endpoint {
    /// Whether a message from `source` can come from the server at the endpoint. The ports must be equal only if the
    /// setting `trusted` names the port.
    package func speaks(as source: Endpoint, _ trusted: [TrustedPeer]) -> Bool {
        speaks(as: source, hasOnePort: trusted.haveOnePort(of: source.address))
    }
}
