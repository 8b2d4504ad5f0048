package import Addressing
package import ProxyPolicy
import SIPGrammar
package import Timekeeping

/// The state of the checks on the upstream and on our own name. ``UpstreamHealth`` orders probes; the engine sends
/// them.
package struct UpstreamWatch {
    package var health = UpstreamHealth(.off, isUsed: false, now: .distantPast)
    package var ownName = AdvertisedName(isUsed: false, now: .distantPast)
    /// The addresses of the upstream's name from the last look-up.
    package private(set) var places: [Endpoint] = []
    /// The number for the upstream's name. Flows with this number need the upstream's certificate.
    package private(set) var server = ServerNumber.none
    /// Whether the log already says that a next hop is this daemon itself.
    private var hasToldOfOwnHop = false

    package var nextDeadline: Instant? {
        guard let health = health.nextDeadline, let name = ownName.nextDeadline else {
            return health.nextDeadline ?? ownName.nextDeadline
        }
        return min(health, name)
    }

    package init() {}

    /// The upstream's name was resolved. Requests from these addresses also come from the upstream.
    package mutating func resolved(to hops: [ResolvedHop]) {
        if let server = hops.first(where: { $0.server != .none })?.server { self.server = server }
        for hop in hops where !places.contains(hop.endpoint) { places.append(hop.endpoint) }
        let excess = places.count - Self.limit
        if excess > 0 { places.removeFirst(excess) }
    }

    /// Whether the upstream may send from there: from its address in the settings, or else from an address of its name.
    package func isSource(_ source: Endpoint, _ settings: ProxySettings) -> Bool {
        if let (_, endpoint) = settings.upstream?.numeric { return endpoint.speaks(as: source, settings) }
        return places.contains { $0.speaks(as: source, settings) }
    }

    private static let limit = 64

    /// A next hop is this daemon itself.
    ///
    /// - Returns: whether to log this now. It is logged once.
    package mutating func tellsOfOwnHop() -> Bool {
        defer { hasToldOfOwnHop = true }
        return !hasToldOfOwnHop
    }
}

extension Endpoint {
    /// Whether a server that is reached at one port may send from another port. It may, unless only one port of its
    /// address is trusted because phones have the others.
    package func speaks(as source: Endpoint, _ settings: ProxySettings) -> Bool {
        speaks(as: source, hasOnePort: settings.hasOnePort(source.address))
    }
}
