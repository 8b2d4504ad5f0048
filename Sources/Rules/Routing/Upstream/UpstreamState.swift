package import Addressing
package import ProxyPolicy
import SIPGrammar
package import Timekeeping

/// The state of the checks of the upstream and of the daemon's advertised host name. ``UpstreamHealth`` orders probes,
/// and the engine sends them.
package struct UpstreamState: ~Copyable {
    package var health = UpstreamHealth(.off, isUsed: false, now: .distantPast)
    package var ownName = AdvertisedName(isUsed: false, now: .distantPast)
    /// The addresses of the upstream's host name, from the last look-up.
    package private(set) var places: [Endpoint] = []
    /// The number that stands for the upstream's host name in flows. On such a flow, the upstream's certificate must be
    /// checked.
    package private(set) var server = ServerNumber.none
    /// Whether the log has reported that a next hop is this daemon itself.
    private var hasToldOfOwnHop = false

    package var nextDeadline: Instant? {
        guard let health = health.nextDeadline, let name = ownName.nextDeadline else {
            return health.nextDeadline ?? ownName.nextDeadline
        }
        return min(health, name)
    }

    package init() {}

    /// Notes the addresses of the upstream. Requests from these addresses count as requests from the upstream too.
    package mutating func resolved(to hops: [ResolvedHop]) {
        if let server = hops.first(where: { $0.server != .none })?.server { self.server = server }
        for hop in hops where !places.contains(hop.endpoint) { places.append(hop.endpoint) }
        let excess = places.count - Self.limit
        if excess > 0 { places.removeFirst(excess) }
    }

    /// Whether the source belongs to the upstream: to its address in the settings, or else to an address of its host
    /// name.
    ///
    /// - Parameters:
    ///   - source: the source of a message.
    ///   - upstream: the setting `upstream`.
    ///   - trusted: the setting `trusted`.
    /// - Returns: whether the source is the upstream.
    package func isSource(_ source: Endpoint, of upstream: NextHop?, _ trusted: [TrustedPeer]) -> Bool {
        if let (_, endpoint) = upstream?.numeric { return endpoint.speaks(as: source, trusted) }
        return places.contains { $0.speaks(as: source, trusted) }
    }

    private static let limit = 64

    /// Notes that a next hop is this daemon itself.
    ///
    /// - Returns: whether to log it, which is done once.
    package mutating func tellsOfOwnHop() -> Bool {
        defer { hasToldOfOwnHop = true }
        return !hasToldOfOwnHop
    }
}

extension Endpoint {
    /// Whether a server with this address may send from the port of `source`. The server may use any port, unless only
    /// one port of its address is trusted because phones use the others.
    package func speaks(as source: Endpoint, _ trusted: [TrustedPeer]) -> Bool {
        speaks(as: source, hasOnePort: trusted.haveOnePort(of: source.address))
    }
}
