package import Addressing
import Collections
package import ProxyPolicy
package import SIPTransactions
package import Timekeeping

/// Watches whether the upstream's servers answer the requests of phones (T33.4).
///
/// Each upstream server gets an OPTIONS at an interval, and also after a call that has got no response for two seconds.
/// Any response shows that the upstream server is up. A server that sends no response for the time `patience` is
/// treated as down. While an upstream server is down, its calls without a response are ended, and OPTIONS are still
/// sent.
///
/// A server that answers INVITEs but never OPTIONS can be treated as down, but still gets calls. If a call to a server
/// that is down has no response after four seconds, the call ends.
package struct UpstreamHealth: Sendable {
    package enum State: String, Hashable, Sendable {
        /// The server has got no OPTIONS yet, or has not answered its first OPTIONS yet.
        case unknown
        case up
        case down
    }

    /// One server of the upstream's host name.
    package struct Server: Sendable {
        package let hop: ResolvedHop
        package fileprivate(set) var state = State.unknown
        /// The time at which the server's present state began.
        package fileprivate(set) var since: Instant
        /// The time of the server's last response.
        fileprivate var lastHeard: Instant?
        /// Whether the server has answered any OPTIONS since the start. A server that has never answered OPTIONS still
        /// gets calls while it is treated as down.
        package fileprivate(set) var answersProbes = false
        /// Whether an OPTIONS to the server has no response yet.
        fileprivate var isAsked = false
        /// The time at which the daemon last sent OPTIONS to the upstream's server.
        fileprivate var askedAt: Instant
        fileprivate var verdictAt: Instant?
        fileprivate var nextProbe: Instant
    }

    package enum Order: Equatable, Sendable {
        /// Look up the upstream's host name, and report the addresses to ``found(_:now:)``.
        case lookUp
        /// Send OPTIONS to the given hop, and report the result to ``heard(at:isProbe:now:)`` or
        /// ``probeEnded(at:wasSent:now:)``.
        case probe(ResolvedHop)
        /// End the given call, which has no response and whose upstream server is down.
        case giveUp(ClientTransactionID)
        /// Log the change of the server's state after the previous state lasted for `after`.
        case tell(Endpoint, State, after: Duration)
        /// Log that the look-up of the upstream's name fails, or succeeds again.
        case tellName(isKnown: Bool)
    }

    private struct WaitingCall {
        let client: ClientTransactionID
        let place: Endpoint
        let since: Instant
    }

    private let settings: UpstreamCheckSettings
    package private(set) var servers: [Server] = []
    /// Whether the last look-up of the upstream's host name found no address.
    package private(set) var isNameless = false
    private var nextRound: Instant?
    /// The calls to the upstream in the last two seconds, oldest first.
    private var calls = Queue<WaitingCall>()
    /// The calls to the upstream that have had no response for more than two seconds.
    private var silent: [WaitingCall] = []
    /// The time of the next work for ``due(now:isSilent:)``.
    package private(set) var nextDeadline: Instant?

    /// After `suspicion`, a call without a response makes its server get an OPTIONS; after `trial`, the call ends if
    /// the server is down.
    private static let suspicion: Duration = .seconds(2)
    private static let trial: Duration = .seconds(4)
    /// The pauses before the next OPTIONS to an unreachable server, and before the next look-up of the host name.
    private static let retryPause: Duration = .seconds(2)
    private static let nameRetryPause: Duration = .seconds(5)
    private static let serverLimit = 16

    /// Creates the checks; if `isUsed` is false, the settings name no upstream, and nothing is checked.
    package init(_ settings: UpstreamCheckSettings, isUsed: Bool, now: Instant) {
        self.settings = settings
        guard isUsed, settings.interval > .zero else { return }
        nextRound = now
        nextDeadline = now
    }

    package var isOn: Bool { nextRound != nil }

    /// Whether all upstream servers are down, or the host name has no address.
    package var isAway: Bool { isNameless || !servers.isEmpty && servers.allSatisfy { $0.state == .down } }

    /// Whether the daemon refuses requests to the upstream: all servers are down, and all have answered OPTIONS before.
    package var refuses: Bool {
        !isNameless && !servers.isEmpty && servers.allSatisfy { $0.state == .down && $0.answersProbes }
    }

    /// The hops in the order of tries: servers that are down come last.
    package func preferred(_ hops: [ResolvedHop]) -> [ResolvedHop] {
        guard hops.count > 1, servers.contains(where: { $0.state == .down }) else { return hops }
        let isDown = { (hop: ResolvedHop) in servers.contains { $0.hop.endpoint == hop.endpoint && $0.state == .down } }
        return hops.filter { !isDown($0) } + hops.filter(isDown)
    }

    package func contains(_ place: Endpoint) -> Bool { servers.contains { $0.hop.endpoint == place } }

    // MARK: What happened

    /// Handles the look-up of the upstream's name; `hops` is empty after a failed look-up.
    package mutating func found(_ hops: [ResolvedHop], now: Instant) -> [Order] {
        guard isOn else { return [] }
        defer { arm() }
        let wasNameless = isNameless
        isNameless = hops.isEmpty
        if isNameless {
            nextRound = now + min(settings.interval, Self.nameRetryPause)
        } else {
            var kept: [Server] = []
            for hop in hops
            where kept.count < Self.serverLimit && !kept.contains(where: { $0.hop.endpoint == hop.endpoint }) {
                var server =
                    servers.first { $0.hop.endpoint == hop.endpoint && $0.hop.transport == hop.transport }
                    ?? Server(hop: hop, since: now, askedAt: now, nextProbe: now)
                if !server.isAsked { server.nextProbe = now }
                kept.append(server)
            }
            servers = kept
        }
        return isNameless == wasNameless ? [] : [.tellName(isKnown: !isNameless)]
    }

    /// Notes that a call was sent to an upstream server.
    package mutating func called(_ client: ClientTransactionID, at place: Endpoint, now: Instant) {
        guard contains(place) else { return }
        calls.append(WaitingCall(client: client, place: place, since: now))
        let due = now + Self.suspicion
        if nextDeadline.map({ due < $0 }) ?? true { nextDeadline = due }
    }

    /// Notes a response from an upstream server.
    package mutating func heard(at place: Endpoint, isProbe: Bool = false, now: Instant) -> [Order] {
        guard let index = servers.firstIndex(where: { $0.hop.endpoint == place }) else { return [] }
        servers[index].lastHeard = now
        if isProbe {
            servers[index].answersProbes = true
            probeIsOver(index, next: now + settings.interval)
        }
        return servers[index].state == .up ? [] : [turn(index, to: .up, now: now)]
    }

    /// Notes that an OPTIONS got no response or could not be sent; `wasSent` is false if no connection could be opened.
    package mutating func probeEnded(at place: Endpoint, wasSent: Bool, now: Instant) -> [Order] {
        guard let index = servers.firstIndex(where: { $0.hop.endpoint == place }) else { return [] }
        let hadVerdict = servers[index].verdictAt == nil
        let wasHeard = servers[index].lastHeard.map { $0 >= servers[index].askedAt } ?? false
        probeIsOver(index, next: now + (wasSent ? .zero : Self.retryPause))
        guard !hadVerdict, !wasHeard, servers[index].state != .down else { return [] }
        return [turn(index, to: .down, now: now)]
    }

    private mutating func probeIsOver(_ index: Int, next: Instant) {
        servers[index].isAsked = false
        servers[index].verdictAt = nil
        servers[index].nextProbe = next
        arm()
    }

    private mutating func turn(_ index: Int, to state: State, now: Instant) -> Order {
        let after = servers[index].state == .unknown ? .zero : now - servers[index].since
        servers[index].state = state
        servers[index].since = now
        // After a change of a server's state, calls may have to end immediately.
        nextDeadline = now
        return .tell(servers[index].hop.endpoint, state, after: after)
    }

    // MARK: Time

    /// Returns the orders for the engine that are due. The closure `isSilent` says whether a call has had no response
    /// yet.
    package mutating func due(now: Instant, isSilent: (ClientTransactionID) -> Bool) -> [Order] {
        guard isOn else { return [] }
        var orders: [Order] = []
        if let round = nextRound, round <= now {
            nextRound = now + settings.interval
            orders.append(.lookUp)
        }
        while let call = calls.first, call.since + Self.suspicion <= now {
            _ = calls.popFirst()
            guard isSilent(call.client), let index = servers.firstIndex(where: { $0.hop.endpoint == call.place }) else {
                continue
            }
            silent.append(call)
            if !servers[index].isAsked { servers[index].nextProbe = now }
        }
        for index in servers.indices {
            if let verdict = servers[index].verdictAt, verdict <= now {
                servers[index].verdictAt = nil
                let wasHeard = servers[index].lastHeard.map { $0 >= servers[index].askedAt } ?? false
                if !wasHeard, servers[index].state != .down { orders.append(turn(index, to: .down, now: now)) }
            }
            guard servers[index].nextProbe <= now, !servers[index].isAsked else { continue }
            servers[index].isAsked = true
            servers[index].askedAt = now
            servers[index].verdictAt = now + settings.patience
            orders.append(.probe(servers[index].hop))
        }
        endSilentCalls(into: &orders, now: now, isSilent: isSilent)
        arm()
        return orders
    }

    /// Ends the calls that wait for the first response of an upstream server that is down.
    ///
    /// If the server answers other requests, its calls continue.
    private mutating func endSilentCalls(
        into orders: inout [Order], now: Instant, isSilent: (ClientTransactionID) -> Bool
    ) {
        var left: [WaitingCall] = []
        for call in silent {
            guard let server = servers.first(where: { $0.hop.endpoint == call.place }), isSilent(call.client),
                server.lastHeard.map({ $0 <= call.since }) ?? true
            else { continue }
            if server.state == .down, call.since + Self.trial <= now {
                orders.append(.giveUp(call.client))
            } else {
                left.append(call)
            }
        }
        silent = left
    }

    private mutating func arm() {
        var next = nextRound
        func consider(_ instant: Instant?) {
            guard let instant else { return }
            next = next.map { min($0, instant) } ?? instant
        }
        consider(calls.first.map { $0.since + Self.suspicion })
        for server in servers {
            consider(server.verdictAt)
            if !server.isAsked { consider(server.nextProbe) }
        }
        for call in silent where servers.contains(where: { $0.hop.endpoint == call.place && $0.state == .down }) {
            consider(call.since + Self.trial)
        }
        nextDeadline = next
    }
}
