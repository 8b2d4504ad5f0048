import Bytes
import Collections
import Timekeeping

/// The state of one domain's PBX: its servers, and the queues of users who wait for their REGISTER.
struct UpstreamStand: Sendable {
    private(set) var setup: UpstreamDomain
    /// Whether the settings no longer name the domain, so that its users' registrations end.
    var isRetired = false
    /// The realm of the PBX's last challenge.
    var askedRealm: ByteString?
    var shared = SharedNonce()
    /// The servers of the PBX, at most eight. A server is replaced only if the last DNS look-up does not name it.
    private(set) var servers: [ServerBreaker] = []
    /// The indices in `servers` of the servers that the last look-up named, the preferred server first.
    private var order: [UInt8] = []
    private var lines = [Queue<UInt32>](repeating: Queue(), count: UserRecord.Line.allCases.count)
    /// The earliest time at which the rate allows the next REGISTER.
    var nextTurn = Instant.distantPast
    /// When ``UpstreamAgent/pump(_:now:into:)`` must run again for the waiting users; `nil` if no user waits.
    var wakeAt: Instant?
    /// The expiry in seconds that each REGISTER requests; a 423 response raises the expiry.
    var expires: UInt32
    var watch = UpstreamWatchdog()

    private static let mostServers = 8
    /// If a timer fires late, the next REGISTERs are sent sooner. This is the maximum delay that is made up for.
    private static let credit: Duration = .milliseconds(20)

    init(setup: UpstreamDomain) {
        self.setup = setup
        expires = setup.expires
    }

    mutating func change(_ setup: UpstreamDomain) {
        self.setup = setup
        expires = setup.expires
    }

    /// Forgets what belongs to users, and keeps the servers.
    mutating func forgetUsers() {
        lines = [Queue<UInt32>](repeating: Queue(), count: UserRecord.Line.allCases.count)
        (wakeAt, watch, shared) = (nil, UpstreamWatchdog(), SharedNonce())
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

    /// The index of the first usable server whose bit in `tried` is not set. If all were tried, the index of the first
    /// usable server.
    func server(now: Instant, after tried: UInt8) -> UInt8? {
        let usable = order.filter { servers[Int($0)].isUsable(now: now) }
        return usable.first { tried & 1 << $0 == 0 } ?? usable.first
    }

    func hasOther(than tried: UInt8, now: Instant) -> Bool {
        order.contains { servers[Int($0)].isUsable(now: now) && tried & 1 << $0 == 0 }
    }

    /// The earliest time at which a server that failed is tried again.
    var nextTrial: Instant? { order.compactMap { servers[Int($0)].opensAt }.min() }

    mutating func change<Result>(_ place: UInt8, _ body: (inout ServerBreaker) -> Result) -> Result? {
        servers.indices.contains(Int(place)) ? body(&servers[Int(place)]) : nil
    }

    // MARK: Users who wait

    var hasWaiting: Bool { lines.contains { !$0.isEmpty } }
    var waitingCount: Int { lines.reduce(0) { $0 + $1.count } }

    mutating func append(_ slot: UInt32, to line: UserRecord.Line) { lines[Int(line.rawValue)].append(slot) }

    /// Removes and returns the first user of the most urgent non-empty queue, and the queue.
    mutating func popFirst() -> (slot: UInt32, line: UserRecord.Line)? {
        for line in UserRecord.Line.allCases {
            if let slot = lines[Int(line.rawValue)].popFirst() { return (slot, line) }
        }
        return nil
    }

    /// Removes the queue entries of users who have moved to another queue, and repeated entries of one user.
    mutating func sweep(_ isCurrent: (UInt32, UserRecord.Line) -> Bool) {
        for line in UserRecord.Line.allCases {
            var kept = Queue<UInt32>()
            var seen: Set<UInt32> = []
            for slot in lines[Int(line.rawValue)].elements where isCurrent(slot, line) && seen.insert(slot).inserted {
                kept.append(slot)
            }
            lines[Int(line.rawValue)] = kept
        }
    }

    /// Counts a sent REGISTER, and sets the time at which the rate allows the next REGISTER.
    mutating func tookTurn(now: Instant) {
        nextTurn = max(nextTurn, now + (.zero - Self.credit)) + .seconds(1) / setup.rate
    }
}

/// Watches the answers of a PBX to all users, to notice that the PBX refuses everybody or has lost its registrations.
struct UpstreamWatchdog: Sendable {
    /// The number of users whom the PBX has refused since the PBX last accepted a user.
    private var refusals = 0
    private var pauses: UInt8 = 0
    /// When the next user is tried while the PBX refuses everybody; `nil` if the PBX does not refuse everybody.
    private(set) var pausedUntil: Instant?
    /// When the next query asks the PBX for the contacts of a user.
    var nextQuery: Instant?
    /// The index of the record at which the last search for a user to query ended.
    var cursor = 0
    /// The slot index of the last user whom the PBX registered.
    var lastBound: UInt32?
    /// The number of consecutive query answers without the daemon's contact.
    private var misses = 0
    /// Whether the PBX has listed the daemon's contact in the answer to a query.
    private(set) var answersQueries = false
    private var lastAgain: Instant?
    private var lastBehind: Instant?
    private var toldUnchallenged = false
    private var toldShortGrant = false

    static let queryPause: Duration = .seconds(10)
    private static let queryBreak: Duration = .seconds(3600)
    private static let refusalLimit = 10
    private static let againPause: Duration = .seconds(300)

    // MARK: Refusals

    /// Counts a user whom the PBX refuses, and pauses the REGISTERs if the PBX has refused ten users in a row.
    ///
    /// - Returns: the pause if the PBX is now treated as refusing everybody; otherwise `nil`.
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

    /// Notes that a user's REGISTER is sent. While the PBX refuses everybody, the next user's REGISTER waits up to 30
    /// seconds for the previous user's result.
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

    mutating func queryFound() {
        misses = 0
        answersQueries = true
    }

    /// Whether a contact that the PBX does not list may make all users register again, which happens at most once in
    /// five minutes.
    mutating func mayRegisterAgain(now: Instant) -> Bool {
        guard lastAgain.map({ now - $0 >= Self.againPause }) ?? true else { return false }
        lastAgain = now
        return true
    }

    // MARK: Events that are logged once

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
