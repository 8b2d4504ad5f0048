package import Addressing
import Collections
package import SIPTransactions
package import Timekeeping

/// Whether the servers are there that phones' requests go to (T33.4).
///
/// Each is asked by OPTIONS at an interval, and at once when a call has had no answer for two seconds. Any response shows that it
/// is there; OPTIONS and calls without one for as long as `patience` show that it is away. Then the calls end that wait for its
/// first response, and it is asked on and on.
///
/// Some servers answer calls and no OPTIONS. They are believed to be away as well, but calls are still tried, for four seconds
/// each.
package struct UpstreamHealth: Sendable {
    package enum State: String, Hashable, Sendable {
        /// It has not been asked yet, or has not had the time to answer.
        case unknown
        case up
        case down
    }

    /// One of the servers that the upstream's name stands for.
    package struct Server: Sendable {
        package let hop: ResolvedHop
        package fileprivate(set) var state = State.unknown
        /// Since when it is up or down.
        package fileprivate(set) var since: Instant
        /// When its last response came.
        fileprivate var lastHeard: Instant?
        /// An OPTIONS was answered since the daemon started, so that silence means something.
        fileprivate var answersProbes = false
        /// An OPTIONS is under way.
        fileprivate var isAsked = false
        /// When that was sent, and until when it may be unanswered before the server counts as away.
        fileprivate var askedAt: Instant
        fileprivate var verdictAt: Instant?
        fileprivate var nextProbe: Instant
    }

    package enum Order: Equatable, Sendable {
        /// Look the upstream's name up, and say what was ``found(_:now:)``.
        case lookUp
        /// Send OPTIONS there. How it ends is told by ``heard(at:isProbe:now:)`` or ``probeEnded(at:wasSent:now:)``.
        case probe(ResolvedHop)
        /// This call has had no response, and its server is away.
        case giveUp(ClientTransactionID)
        /// The server is up or down from now on; `after` is how long it was in its former state.
        case tell(Endpoint, State, after: Duration)
        /// The upstream's name leads nowhere, or leads somewhere again.
        case tellName(isKnown: Bool)
    }

    private struct WaitingCall {
        let client: ClientTransactionID
        let place: Endpoint
        let since: Instant
    }

    private let settings: UpstreamCheckSettings
    package private(set) var servers: [Server] = []
    /// The last look at its name gave nothing.
    package private(set) var isNameless = false
    private var nextRound: Instant?
    /// Calls that left in the last two seconds, the oldest first.
    private var calls = Queue<WaitingCall>()
    /// Older ones that have had no response.
    private var silent: [WaitingCall] = []
    /// When ``due(now:isSilent:)`` is to be called.
    package private(set) var nextDeadline: Instant?

    /// How long a call may be without a response until its server is asked, and until it ends when that is away.
    private static let suspicion: Duration = .seconds(2)
    private static let trial: Duration = .seconds(4)
    /// The pause before a server is asked again that could not be reached at all, and a name looked up again.
    private static let retryPause: Duration = .seconds(2)
    private static let nameRetryPause: Duration = .seconds(5)
    private static let serverLimit = 16

    /// With `isUsed` false there is no upstream, and nothing to do.
    package init(_ settings: UpstreamCheckSettings, isUsed: Bool, now: Instant) {
        self.settings = settings
        guard isUsed, settings.interval > .zero else { return }
        nextRound = now
        nextDeadline = now
    }

    package var isOn: Bool { nextRound != nil }

    /// Nobody would answer a request now.
    package var isAway: Bool { isNameless || !servers.isEmpty && servers.allSatisfy { $0.state == .down } }

    /// Whether a request is refused without a try: all servers are down that used to answer OPTIONS.
    package var refuses: Bool {
        !isNameless && !servers.isEmpty && servers.allSatisfy { $0.state == .down && $0.answersProbes }
    }

    /// Those first that are not known to be away.
    package func preferred(_ hops: [ResolvedHop]) -> [ResolvedHop] {
        guard hops.count > 1, servers.contains(where: { $0.state == .down }) else { return hops }
        let isDown = { (hop: ResolvedHop) in servers.contains { $0.hop.endpoint == hop.endpoint && $0.state == .down } }
        return hops.filter { !isDown($0) } + hops.filter(isDown)
    }

    package func contains(_ place: Endpoint) -> Bool { servers.contains { $0.hop.endpoint == place } }

    // MARK: What happened

    /// The places that the upstream's name stands for now; none when it could not be looked up.
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

    /// A call has left for one of the servers.
    package mutating func called(_ client: ClientTransactionID, at place: Endpoint, now: Instant) {
        guard contains(place) else { return }
        calls.append(WaitingCall(client: client, place: place, since: now))
        let due = now + Self.suspicion
        if nextDeadline.map({ due < $0 }) ?? true { nextDeadline = due }
    }

    /// A response has come from there.
    package mutating func heard(at place: Endpoint, isProbe: Bool = false, now: Instant) -> [Order] {
        guard let index = servers.firstIndex(where: { $0.hop.endpoint == place }) else { return [] }
        servers[index].lastHeard = now
        if isProbe {
            servers[index].answersProbes = true
            probeIsOver(index, next: now + settings.interval)
        }
        return servers[index].state == .up ? [] : [turn(index, to: .up, now: now)]
    }

    /// An OPTIONS came to nothing; it may not even have been sent, since no connection could be made.
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
        // Calls may end now.
        nextDeadline = now
        return .tell(servers[index].hop.endpoint, state, after: after)
    }

    // MARK: Time

    /// - Parameters:
    ///   - now: the time.
    ///   - isSilent: whether a call is still under way and has had no response.
    /// - Returns: what is to be done now.
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

    /// Those whose server is away have waited in vain; those whose server speaks to others wait as long as they like.
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
