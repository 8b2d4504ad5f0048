import Bytes
import Collections
import Timekeeping

/// The state of one upstream: its servers, and the users who wait for their turn.
struct UpstreamStand: Sendable {
    private(set) var setup: UpstreamDomain
    /// Whether the settings no longer name the domain. The users of such a stand are signed out.
    var isRetired = false
    /// The realm of the last challenge.
    var askedRealm: ByteString?
    var shared = SharedNonce()
    /// At most eight servers. A place is given to another server only if the look-up no longer names the first.
    private(set) var servers: [ServerBreaker] = []
    /// The places of the listed servers, in their order.
    private var order: [UInt8] = []
    private var lines = [Queue<UInt32>](repeating: Queue(), count: UserRecord.Line.allCases.count)
    /// When the next user may begin.
    var nextTurn = Instant.distantPast
    /// When the queues must be looked at again.
    var wakeAt: Instant?
    /// The time that is asked for, in seconds. 423 raises it.
    var expires: UInt32
    var watch = UpstreamWatchdog()

    private static let mostServers = 8
    /// A late timer may be made up for by this much.
    private static let credit: Duration = .milliseconds(20)

    init(setup: UpstreamDomain) {
        self.setup = setup
        expires = setup.expires
    }

    mutating func change(_ setup: UpstreamDomain) {
        self.setup = setup
        expires = setup.expires
    }

    // MARK: Servers

    mutating func found(_ list: [UpstreamServer]) {
        for place in servers.indices { servers[place].isListed = list.contains(servers[place].server) }
        order = []
        for server in list {
            guard !order.contains(where: { servers[Int($0)].server == server }), let place = place(for: server) else {
                continue
            }
            order.append(place)
        }
    }

    private mutating func place(for server: UpstreamServer) -> UInt8? {
        if let place = servers.firstIndex(where: { $0.server == server }) { return UInt8(place) }
        if servers.count < Self.mostServers {
            servers.append(ServerBreaker(server: server))
            return UInt8(servers.count - 1)
        }
        guard let place = servers.firstIndex(where: { !$0.isListed }) else { return nil }
        servers[place] = ServerBreaker(server: server)
        return UInt8(place)
    }

    /// The first usable server that is not among `tried`, or else the first usable one.
    func server(now: Instant, after tried: UInt8) -> UInt8? {
        let usable = order.filter { servers[Int($0)].isUsable(now: now) }
        return usable.first { tried & 1 << $0 == 0 } ?? usable.first
    }

    func hasOther(than tried: UInt8, now: Instant) -> Bool {
        order.contains { servers[Int($0)].isUsable(now: now) && tried & 1 << $0 == 0 }
    }

    /// When a server that failed is tried again.
    var nextTrial: Instant? { order.compactMap { servers[Int($0)].opensAt }.min() }

    mutating func change<Result>(_ place: UInt8, _ body: (inout ServerBreaker) -> Result) -> Result? {
        servers.indices.contains(Int(place)) ? body(&servers[Int(place)]) : nil
    }

    // MARK: Users who wait

    var hasWaiting: Bool { lines.contains { !$0.isEmpty } }
    var waitingCount: Int { lines.reduce(0) { $0 + $1.count } }

    mutating func append(_ slot: UInt32, to line: UserRecord.Line) { lines[Int(line.rawValue)].append(slot) }

    /// The next user, and the queue of the user.
    mutating func popFirst() -> (slot: UInt32, line: UserRecord.Line)? {
        for line in UserRecord.Line.allCases {
            if let slot = lines[Int(line.rawValue)].popFirst() { return (slot, line) }
        }
        return nil
    }

    /// Removes the entries of users who left their queue.
    mutating func sweep(_ isCurrent: (UInt32, UserRecord.Line) -> Bool) {
        for line in UserRecord.Line.allCases {
            var kept = Queue<UInt32>()
            for slot in lines[Int(line.rawValue)].elements where isCurrent(slot, line) { kept.append(slot) }
            lines[Int(line.rawValue)] = kept
        }
    }

    /// A REGISTER is sent. The next user begins when the rate of the setting allows another one.
    mutating func tookTurn(now: Instant) {
        nextTurn = max(nextTurn, now + (.zero - Self.credit)) + .seconds(1) / setup.rate
    }
}

/// Observations that concern a PBX as a whole.
struct UpstreamWatchdog: Sendable {
    /// How many users were refused one after the other, without any that was accepted.
    private var refusals = 0
    private var pauses: UInt8 = 0
    /// While the PBX refuses everybody, when the next user is tried.
    private(set) var pausedUntil: Instant?
    /// When a user is next asked for by a query.
    var nextQuery: Instant?
    /// The user for whom the scan for the next query begins.
    var cursor = 0
    /// A user who was registered not long ago.
    var lastBound: UInt32?
    /// How many queries in a row lacked a contact that must be there.
    private var misses = 0
    private var lastAgain: Instant?
    private var lastBehind: Instant?
    private var toldUnchallenged = false
    private var toldShortGrant = false

    static let queryPause: Duration = .seconds(10)
    private static let queryBreak: Duration = .seconds(3600)
    private static let refusalLimit = 10
    private static let againPause: Duration = .seconds(300)

    // MARK: Refusals

    /// - Returns: the pause, if one begins.
    mutating func refused(jitter: Double, now: Instant) -> Duration? {
        refusals += 1
        guard refusals >= Self.refusalLimit else { return nil }
        let pause = Backoff.pause(pauses + 4, jitter)
        pauses = min(pauses + 1, 16)
        pausedUntil = now + pause
        return refusals == Self.refusalLimit ? pause : nil
    }

    mutating func accepted() {
        refusals = 0
        pauses = 0
        pausedUntil = nil
    }

    /// A user begins. While everybody is refused, the next one waits for the result.
    mutating func began(now: Instant) {
        if refusals >= Self.refusalLimit { pausedUntil = now + .seconds(30) }
    }

    // MARK: Losses

    enum QueryVerdict { case nothing, lost, answersNoQuery }

    mutating func queryMissed(now: Instant) -> QueryVerdict {
        misses += 1
        guard misses > 2 else { return .lost }
        return queryIsUseless(now: now)
    }

    mutating func queryIsUseless(now: Instant) -> QueryVerdict {
        misses = 0
        nextQuery = now + Self.queryBreak
        return .answersNoQuery
    }

    mutating func queryFound() { misses = 0 }

    /// Whether a missing contact in the answer to a REGISTER may make all users register again.
    mutating func mayRegisterAgain(now: Instant) -> Bool {
        guard lastAgain.map({ now - $0 >= Self.againPause }) ?? true else { return false }
        lastAgain = now
        return true
    }

    // MARK: News that is told once

    mutating func isNewsOfBehind(now: Instant) -> Bool {
        guard lastBehind.map({ now - $0 >= .seconds(600) }) ?? true else { return false }
        lastBehind = now
        return true
    }

    mutating func isNewsOfUnchallenged() -> Bool {
        defer { toldUnchallenged = true }
        return !toldUnchallenged
    }

    mutating func isNewsOfShortGrant() -> Bool {
        defer { toldShortGrant = true }
        return !toldShortGrant
    }
}
