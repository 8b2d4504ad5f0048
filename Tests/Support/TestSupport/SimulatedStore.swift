import Addressing
import Bytes
import Calling
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Timekeeping

/// The shared store of a simulated cluster, with the rules of the PostgreSQL store. A change is visible to all nodes
/// as soon as it is committed, and perhaps before the node knows of the commit.
struct SimulatedStore {
    /// The present reaction of the store to a node.
    enum Condition {
        case serves
        case refuses
        /// The store takes questions, and answers none before the given time.
        case hangs(until: Instant)
    }

    /// A node's row in the list of living nodes.
    struct NodeRow {
        let run: UInt32
        var seen: Instant
        /// Whether the node accepts requests of other nodes.
        var isThere: Bool
    }

    struct HeldRow {
        let node: Int
        let invite: HeldInvite
        let writtenAt: Instant
        /// The changes of the call since its INVITE.
        var changes: [CallChange] = []

        /// The INVITE with the state of its call, as the next node reads it.
        var taken: HeldInvite {
            HeldInvite(
                aor: invite.aor, callID: invite.callID, request: invite.request, source: invite.source,
                until: invite.until, call: StoredCall(changes: changes, request: invite.request))
        }
    }

    /// The committed rows.
    var disk = SimulatedDisk()
    private(set) var waiting: [AddressOfRecord: [Int: Instant]] = [:]
    private(set) var held: [HeldRow] = []
    private(set) var rows: [Int: NodeRow] = [:]
    private var lastRun: UInt32 = 0
    /// The number of failovers so far. A failover ends all connections.
    private(set) var failovers = 0
    private var awayUntil = Instant.distantPast
    private var hangsUntil = Instant.distantPast
    /// The effects of statements whose nodes no longer wait for an answer.
    private var late: [(inout SimulatedStore) -> Void] = []

    static let lifetime: Duration = .seconds(5)

    func condition(now: Instant) -> Condition {
        if now < awayUntil { return .refuses }
        return now < hangsUntil ? .hangs(until: hangsUntil) : .serves
    }

    mutating func goesAway(until end: Instant) { awayUntil = max(awayUntil, end) }
    mutating func hangs(until end: Instant) { hangsUntil = max(hangsUntil, end) }

    /// Lets a statement take effect when the store no longer hangs.
    mutating func delay(_ effect: @escaping (inout SimulatedStore) -> Void) { late.append(effect) }

    mutating func performDelayed() {
        let effects = late
        late = []
        for effect in effects { effect(&self) }
    }

    // MARK: What waits

    mutating func announce(_ announcement: Announcement, at node: Int, now: Instant) {
        waiting[announcement.aor, default: [:]][node] = waiting[announcement.aor]?[node] ?? now
        if let invite = announcement.invite { keep(invite, at: node, now: now) }
    }

    mutating func keep(_ invite: HeldInvite, at node: Int, now: Instant) {
        guard !held.contains(where: { $0.node == node && $0.invite.key == invite.key }) else { return }
        held.append(HeldRow(node: node, invite: invite, writtenAt: now))
    }

    mutating func note(_ change: CallChange, of call: HeldCallKey, at node: Int) {
        guard let row = held.firstIndex(where: { $0.node == node && $0.invite.key == call }) else { return }
        held[row].changes.append(change)
    }

    mutating func endInvite(_ aor: AddressOfRecord, _ callID: ByteString, at node: Int) {
        held.removeAll { $0.node == node && $0.invite.aor == aor && $0.invite.callID == callID }
    }

    mutating func endWaiting(_ users: [AddressOfRecord], at node: Int) {
        for aor in users { waiting[aor]?[node] = nil }
    }

    func nodes(waitingFor aor: AddressOfRecord, besides node: Int) -> [Int] {
        (waiting[aor] ?? [:]).keys.filter { $0 != node }.sorted()
    }

    func holds(_ callID: String) -> Bool { held.contains { $0.invite.callID.string == callID } }

    // MARK: The nodes

    /// Gives a starting node the number of its run; the result also says whether another node has taken over its calls.
    mutating func starts(_ node: Int, now: Instant) -> (run: UInt32, wasTakenOver: Bool) {
        lastRun += 1
        let wasTakenOver = rows[node] == nil
        rows[node] = NodeRow(run: lastRun, seen: now, isThere: rows[node]?.isThere ?? false)
        return (lastRun, wasTakenOver)
    }

    /// Writes a node's sign of life. The result is false if another node had removed the node's row.
    mutating func lives(_ node: Int, run: UInt32, now: Instant) -> Bool {
        defer { rows[node] = NodeRow(run: run, seen: now, isThere: true) }
        return rows[node] != nil
    }

    /// Takes over the INVITEs of all nodes without a sign of life.
    mutating func takeOver(by node: Int, now: Instant) -> [HeldRow] {
        let dead = rows.filter { $0.key != node && $0.value.seen + Self.lifetime < now }.keys
        for gone in dead {
            rows[gone] = nil
            for aor in waiting.keys { waiting[aor]?[gone] = nil }
        }
        let taken = held.filter { dead.contains($0.node) }
        held.removeAll { dead.contains($0.node) }
        return taken
    }

    func peers(of node: Int, keepsOld: Bool, now: Instant) -> [Int] {
        rows.filter { $0.key != node && $0.value.isThere && (keepsOld || $0.value.seen + Self.lifetime > now) }.keys
            .sorted()
    }

    // MARK: The failover

    /// Ends all connections. The rows of acknowledged commits stay. Announcements, which wait for no standby, are lost
    /// if `isLost` is true.
    ///
    /// - Returns: the Call-IDs of the lost INVITEs.
    mutating func failsOver(now: Instant, isLost: (Instant) -> Bool) -> [ByteString] {
        failovers += 1
        for aor in waiting.keys.sorted(by: { $0.description < $1.description }) {
            for (node, since) in (waiting[aor] ?? [:]).sorted(by: { $0.key < $1.key }) where isLost(since) {
                waiting[aor]?[node] = nil
            }
        }
        let lost = held.map { isLost($0.writtenAt) }
        defer { held = zip(held, lost).filter { !$1 }.map(\.0) }
        return zip(held, lost).filter(\.1).map(\.0.invite.callID)
    }
}

/// A node's connections to the shared store: one for changes, and one for questions and signs of life.
struct SimulatedStoreLink {
    enum Question {
        case users(UserReads.Question, Announcement?)
        case nodes(waitingFor: AddressOfRecord)
        case endWaiting([AddressOfRecord])
        case endInvite(AddressOfRecord, callID: ByteString)
        case keep(HeldInvite)
        case callChanged(HeldCallKey, CallChange)
    }

    var questions: [Question] = []
    var isPlanned = false
    /// The questions that wait until the node's earlier changes are written.
    var afterWrite: [Question] = []
    /// The times until which the connections wait for an answer of a hanging store.
    var writerBusyUntil = Instant.distantPast
    var readerBusyUntil = Instant.distantPast
    /// The time before which no new connection for questions is tried.
    var pausesUntil = Instant.distantPast
    /// The times of the last answers; later answers come later.
    var writerAnswered = Instant.distantPast
    var readerAnswered = Instant.distantPast
    /// The time until which the node alone does not reach the store.
    var cutUntil = Instant.distantPast
    /// New rows of failed commits, which the store may have all the same. The next commit deletes the rows.
    var unconfirmed: [DeviceID: StoredBinding] = [:]
    var confirmed = Set<DeviceID>()
    var lastSign: Instant?
    var signsSince: Instant?
    var hasJoined = false
    var peers: [PeerNode] = []

    /// How long a node waits for an answer of the store.
    static let patience: Duration = .seconds(2)
    static let interval: Duration = .seconds(1)

    mutating func failed(_ batch: SimulatedDisk.Batch) {
        for case .binding(.upsert(let row)) in batch.filter({ $0.ticket != nil }).flatMap(\.changes)
        where !confirmed.contains(row.id) { unconfirmed[row.id] = row }
    }

    mutating func confirmed(_ batch: SimulatedDisk.Batch) {
        for case .binding(.upsert(let row)) in batch.flatMap(\.changes) { confirmed.insert(row.id) }
    }

    /// Whether the node may take over from nodes without signs of life.
    mutating func takesOver(now: Instant) -> Bool {
        defer { lastSign = now }
        if lastSign.map({ now - $0 > Self.interval * 3 }) ?? true { signsSince = now }
        return signsSince.map { now - $0 > SimulatedStore.lifetime } ?? false
    }
}
