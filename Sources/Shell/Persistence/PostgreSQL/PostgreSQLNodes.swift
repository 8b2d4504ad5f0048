import Addressing
import Bytes
import Calling
import Messaging
import PostgreSQLClient
import ProxyCore
import ProxyPolicy
import Reactor
import Registration
import Routing
import Telemetry
import Timekeeping

/// Reads users for a node of a cluster, and keeps the list of living nodes. One thread with one connection does both.
/// The thread sends all waiting questions together.
///
/// The server must answer within a short time. After a failure, questions get no answer until a new connection is open.
actor PostgreSQLNodes {
    private let loop: EventLoop  // The loop is stored, because the executor reference does not keep it alive
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    private let address: PostgreSQLPlace
    private let name: String
    nonisolated let run: UInt32
    /// Whether another node has taken over the calls of this node's earlier run.
    nonisolated let wasTakenOver: Bool
    /// The other nodes that were alive when this node opened the store.
    nonisolated let peersAtStart: [PeerNode]
    private let log: Log
    private let waiting = Locked(Waiting())
    private var tables: PostgreSQLTables?
    /// Holds the lock of the node's name until the process ends.
    private var place: String?
    private var told: (@Sendable (NodeNews) -> Void)?
    private var peers: [PeerNode] = []
    private var revisions = SeenRevisions()
    private var unsent = ToldCounts.Unsent()
    /// The calls whose end the database does not know, because it did not answer.
    private var unended: [EndedCall] = []
    /// The calls of phones and the changes of calls that the database does not have yet, because it did not answer.
    private var unwritten = UnwrittenCalls()
    private var places = ToldCounts.Places()
    /// The time of the last sign of life, and of the first sign without a gap up to it.
    private var lastSign, signsSince: Instant?
    /// Whether this node has the duties that one node does for all nodes.
    private var isOnDuty = false
    /// Whether the first sign of life was written, and the messages of earlier runs were taken.
    private var hasJoined = false
    private var beat: LoopTimer?
    /// The time before which no new connection is tried.
    private var pausesUntil = SystemClock.now
    private var isAway = false
    private var lines = LogRateLimit(burst: 1, per: .seconds(1))

    /// A call that no longer waits.
    struct EndedCall {
        let aor: AddressOfRecord
        let callID: ByteString
    }

    /// The questions that wait for the thread.
    struct Waiting {
        var reads: [Read] = []
        var searches: [Search] = []
        var pages: [Page] = []
        var over: [AddressOfRecord] = []
        /// The INVITEs of phones with which other nodes can continue calls.
        var kept: [HeldInvite] = []
        /// The changes of calls that other nodes continue, with the values of all changes together.
        var changed: [HeldCallKey: [UInt8]] = [:]
        var ended: [EndedCall] = []
        /// The counts for the other nodes.
        var counts: [SharedCount] = []

        var isEmpty: Bool {
            reads.isEmpty && searches.isEmpty && pages.isEmpty && over.isEmpty && kept.isEmpty && changed.isEmpty
                && ended.isEmpty && counts.isEmpty
        }

        /// Adds a question. The thread sends announcements before withdrawals, so a new announcement ends an earlier
        /// withdrawal.
        mutating func add(_ read: Read) {
            if let aor = read.waiting?.aor, !over.isEmpty { over.removeAll { $0 == aor } }
            reads.append(read)
        }
    }

    struct Read {
        let subjects: [UserSubject]
        let waiting: Announcement?
        let answer: @Sendable (StoredUsers?) -> Void
    }

    struct Search {
        let aor: AddressOfRecord
        let answer: @Sendable ([String]) -> Void
    }

    struct Page {
        let question: ContactSearch.Question
        let answer: @Sendable (ContactPage?) -> Void
    }

    /// The interval of the signs of life. A node without a sign of life for five seconds counts as dead.
    private static let interval: Duration = .seconds(1)
    private static let deadline: Duration = .seconds(5)
    /// The maximum number of ended calls that wait for the database. The rows of further calls stay for 30 s.
    private static let mostUnended = 10_000

    /// Takes the name of this node, and gets a number for its run.
    ///
    /// - Throws: an error if the database does not answer, or another daemon has the name.
    init(_ address: PostgreSQLPlace, name: String, log: Log) throws(PostgreSQLFailure) {
        (self.address, self.name, self.log) = (address, name, log)
        let tables = try address.open()
        let (rows, living) = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            let rows = try tables.rows(
                """
                WITH next AS (SELECT nextval('node_run') AS run)
                INSERT INTO node (name, place, run, seen, version, schema_number, described_run)
                SELECT $1::text, '', run, clock_timestamp(), $2::text, $3::bigint, run FROM next
                ON CONFLICT (name) DO UPDATE SET run = EXCLUDED.run, seen = EXCLUDED.seen, version = EXCLUDED.version,
                    schema_number = EXCLUDED.schema_number, described_run = EXCLUDED.described_run
                RETURNING run, (xmax <> 0)::int::bigint
                """, name, address.version, PostgreSQLSchema.migrations.count)
            try tables.sendNodes(besides: name, withSilent: false)
            return (rows, try tables.connection.results().last)
        }
        guard rows.count > 0 else { throw .otherStore }
        peersAtStart = living?.values(\.peerNode) ?? []
        run = UInt32(truncatingIfNeeded: rows[0].integer(0))
        wasTakenOver = rows[0].integer(1) == 0
        do throws(SystemError) {
            loop = try EventLoop()
            try loop.start(name: "nodes")
        } catch {
            throw .server(PostgreSQLError(kind: .connection, message: "cannot start a thread: \(error)"))
        }
    }

    nonisolated func read(
        _ subjects: [UserSubject], waiting: Announcement?, answer: @escaping @Sendable (StoredUsers?) -> Void
    ) {
        queue { $0.add(Read(subjects: subjects, waiting: waiting, answer: answer)) }
    }

    nonisolated func nodes(waitingFor aor: AddressOfRecord, answer: @escaping @Sendable ([String]) -> Void) {
        queue { $0.searches.append(Search(aor: aor, answer: answer)) }
    }

    nonisolated func contacts(_ question: ContactSearch.Question, answer: @escaping @Sendable (ContactPage?) -> Void) {
        queue { $0.pages.append(Page(question: question, answer: answer)) }
    }

    nonisolated func endWaiting(_ users: [AddressOfRecord]) { queue { $0.over += users } }

    nonisolated func endInvite(_ aor: AddressOfRecord, callID: ByteString) {
        queue { $0.ended.append(EndedCall(aor: aor.compacted(), callID: callID.compacted())) }
    }

    /// Writes the INVITE of a phone soon, before the changes of its call.
    nonisolated func keep(_ invite: HeldInvite) { queue { $0.kept.append(invite) } }

    /// Writes a change of a call soon, after the INVITE of the call and before the end of the call.
    nonisolated func note(_ change: CallChange, of call: HeldCallKey) {
        queue { SharedCallChanges.append(change, to: &$0.changed[call, default: []]) }
    }

    nonisolated func tell(_ counts: [SharedCount]) { queue { $0.counts += counts } }

    private nonisolated func queue(_ add: (inout Waiting) -> Void) {
        let isFirst = waiting.withLock { waiting in
            defer { add(&waiting) }
            return waiting.isEmpty
        }
        if isFirst { loop.post { self.assumeIsolated { $0.answerAll() } } }
    }

    /// Announces the node, and begins its signs of life.
    nonisolated func join(at place: String, told: @escaping @Sendable (NodeNews) -> Void) {
        loop.post { self.assumeIsolated { $0.joins(at: place, told) } }
    }

    /// Gives a sign of life now. `done` is called after all news is told, or after the database has not answered.
    nonisolated func catchUp(done: @escaping @Sendable () -> Void) {
        loop.post {
            self.assumeIsolated { $0.lives() }
            done()
        }
    }

    /// Withdraws the node, and ends the thread.
    nonisolated func stop() {
        loop.post { self.assumeIsolated { $0.leave() } }
        loop.stop()
        loop.join()
    }

    // MARK: The questions

    private func answerAll() {
        let taken = waiting.withLock { waiting in
            defer { waiting = Waiting() }
            return waiting
        }
        guard !taken.isEmpty || !unended.isEmpty || !unwritten.isEmpty else { return }
        if !taken.counts.isEmpty { unsent.add(taken.counts, now: SystemClock.now) }
        do throws(PostgreSQLFailure) {
            let tables = try openTables()
            try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in try answer(taken, by: tables) }
        } catch {
            failed(error)
            unended = (unended + taken.ended).suffix(Self.mostUnended)
            if error.isOfSystem {
                unwritten.add(taken.kept, taken.changed)
            } else {
                // A row that the database refuses must not make all further questions fail.
                unwritten = UnwrittenCalls()
            }
            for call in taken.ended { unwritten.ended(HeldCallKey(aor: call.aor, callID: call.callID)) }
            for read in taken.reads { read.answer(nil) }
            for search in taken.searches { search.answer([]) }
            for page in taken.pages { page.answer(nil) }
        }
    }

    private func answer(_ taken: Waiting, by tables: PostgreSQLTables) throws(PostgreSQLError) {
        // A caller may use a Call-ID again, so the earlier ends come before the new calls.
        for call in unended { try tables.send(ended: call.callID, of: call.aor, at: name) }
        try tables.send(waiting: taken.reads.compactMap(\.waiting), at: name)
        for invite in unwritten.kept + taken.kept { try tables.send(held: invite, at: name) }
        for (call, changes) in unwritten.changed { try tables.send(changes, of: call, at: name) }
        for (call, changes) in taken.changed { try tables.send(changes, of: call, at: name) }
        for call in taken.ended { try tables.send(ended: call.callID, of: call.aor, at: name) }
        if !taken.over.isEmpty { try tables.send(over: taken.over, at: name) }
        for row in unsent.rows { try tables.send(told: row, run: run, now: SystemClock.now) }
        if !taken.reads.isEmpty { try tables.sendUsers(taken.reads.flatMap(\.subjects)) }
        if !taken.searches.isEmpty { try tables.sendNodes(waitingFor: taken.searches.map(\.aor), besides: name) }
        for page in taken.pages { try tables.send(page: page.question) }
        var rows = try tables.connection.results()[...]
        unsent.confirmed()
        unended = []
        unwritten = UnwrittenCalls()
        if !taken.reads.isEmpty {
            let users = ReadUsers(&rows)
            for read in taken.reads { read.answer(users.answer(to: read.subjects)) }
        }
        if !taken.searches.isEmpty {
            var found: [AddressOfRecord: [String]] = [:]
            for case let row? in (rows.popFirst()?.values { $0 }) ?? [] {
                let aor = AddressOfRecord(user: row.byteString(0), host: row.byteString(1))
                found[aor, default: []].append(row.text(2))
            }
            for search in taken.searches { search.answer(found[search.aor] ?? []) }
        }
        for page in taken.pages { page.answer(ContactPage(&rows, limit: page.question.limit)) }
    }

    // MARK: The nodes

    private func joins(at place: String, _ told: @escaping @Sendable (NodeNews) -> Void) {
        (self.place, self.told) = (place, told)
        beat = try? LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.lives() } }
        lives()
    }

    /// Writes a sign of life, and reads which other nodes live.
    private func lives() {
        beat?.arm(at: SystemClock.now + Self.interval)
        guard let place else { return }
        do throws(PostgreSQLFailure) {
            let tables = try openTables()
            let takesOver = self.takesOver(at: SystemClock.now)
            var rows = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try tables.send(
                    alive: name, at: place, run: run, version: address.version, takesOver: takesOver,
                    keepsOld: hasJoined && !takesOver)
                try tables.sendCounts(besides: run, after: places)
                try tables.send(dutiesTo: run)
                return try tables.connection.results()[...]
            }
            if let row = rows.popFirst(), row.count > 0, row[0].integer(0) == 0, hasJoined {
                log.warning(
                    "this node gave no sign of life for too long, so other nodes have taken over its waiting calls",
                    [.path: .text(address.name), .advice: "Check the machine, and the way to the database."])
                try tellTakenOver(by: tables)
            }
            let invites = rows.popFirst()?.values(\.heldInvite) ?? []
            let signs = rows.popFirst()
            let found = signs?.values(\.peerNode)
            let versions = Dictionary(signs?.values { ($0.text(0), $0.text(3)) } ?? []) { $1 }
            let changed = rows.popFirst()?.values { (table: $0.text(0), revision: $0.integer(1)) }
            let counts = readCounts(rows.popFirst())
            let isOnDuty = rows.popFirst()?.values { $0.integer(0) }.first == Int64(run)
            let isStart = !hasJoined
            let isAnyGone = peers.contains { peer in found?.contains { $0.name == peer.name } == false }
            if let found, found != peers {
                tell(found, versions)
                peers = found
                told?(.peers(found))
            }
            if !invites.isEmpty { told?(.invites(invites)) }
            if let tables = changed.map({ revisions.changed(in: $0) }), !tables.isEmpty { told?(.changed(tables)) }
            if !counts.isEmpty { told?(.counts(counts)) }
            told?(.alive)
            tell(isOnDuty: isOnDuty)
            if isStart || isAnyGone { try takeMessages(isStart: isStart, by: tables) }
            hasJoined = true
            if isAway {
                isAway = false
                log.notice("the database answers this node again", [.path: .text(address.name)])
            }
            if !unended.isEmpty || !unwritten.isEmpty { answerAll() }
        } catch {
            lastSign = nil
            // Another node can get the duties now.
            tell(isOnDuty: false)
            failed(error)
        }
    }

    /// Tells the engine which calls are still with this node. An INVITE that waits for this thread is not in the
    /// database yet.
    private func tellTakenOver(by tables: PostgreSQLTables) throws(PostgreSQLFailure) {
        let rows = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            try tables.rows("SELECT username, domain, call_id FROM held_call WHERE node = $1", name)
        }
        var remaining = Set(
            rows.values { row in
                HeldCallKey(
                    aor: AddressOfRecord(user: row.byteString(0), host: row.byteString(1)), callID: row.byteString(2))
            })
        remaining.formUnion(
            waiting.withLock { $0.reads.compactMap { $0.waiting?.invite?.key } + $0.kept.map(\.key) })
        remaining.formUnion(unwritten.kept.map(\.key))
        told?(.takenOver(remaining: remaining))
    }

    /// Reads the rows in which other nodes have written their counts.
    private func readCounts(_ rows: PostgreSQLRows?) -> [SharedCount] {
        let now = SystemClock.now
        places.prune(now: now)
        let counts = rows?.values { row -> [SharedCount]? in
            guard places.read(row.integer(1), of: row.integer(0), now: now) else { return nil }
            return ToldCounts.counts(
                in: row.bytes(3), of: UInt32(truncatingIfNeeded: row.integer(0)),
                writtenBefore: .milliseconds(row.integer(2)))
        }
        return (counts ?? []).flatMap { $0 }
    }

    /// Takes over the stored messages that no living node has, with their recipients.
    private func takeMessages(isStart: Bool, by tables: PostgreSQLTables) throws(PostgreSQLFailure) {
        var last: Int64 = -1
        while true {
            let (messages, users) = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
                try tables.send("BEGIN")
                try tables.send(messagesTo: name, run: run, isStart: isStart, after: last)
                let messages = try tables.connection.results().last?.values(\.storedMessage) ?? []
                let recipients = Set(messages.map(\.aor)).map { UserSubject.user($0) }
                try tables.sendUsers(recipients)
                try tables.send("COMMIT")
                var rows = try tables.connection.results()[...]
                return (messages, ReadUsers(&rows).answer(to: recipients))
            }
            guard let end = messages.map(\.id).max() else { return }
            last = Int64(bitPattern: end)
            told?(.messages(messages, users))
        }
    }

    /// Whether the node may take over from nodes without signs of life. After an outage of the database, the signs of all
    /// nodes are old. So the node waits until all others have had time for a new sign.
    private func takesOver(at now: Instant) -> Bool {
        defer { lastSign = now }
        if lastSign.map({ now - $0 > Self.interval * 3 }) ?? true { signsSince = now }
        return signsSince.map { now - $0 > Self.deadline } ?? false
    }

    private func tell(_ found: [PeerNode], _ versions: [String: String]) {
        for peer in found where !peers.contains(peer) {
            // The first version with nodes does not write its version.
            let version = versions[peer.name].flatMap { $0.isEmpty ? nil : $0 } ?? "unknown"
            let target = LogValue.text("\(peer.name) \(peer.place)")
            log.notice("another node of the cluster is here", [.target: target, .version: .text(version)])
            if version != address.version {
                log.notice(
                    "another node of the cluster has another version, so upgrade the older node soon",
                    [.target: target, .version: .text("\(version), here \(address.version)")])
            }
        }
        for peer in peers where !found.contains(where: { $0.name == peer.name }) {
            log.warning(
                "a node of the cluster has ended or does not reach the database", [.target: .text(peer.name)])
        }
    }

    private func tell(isOnDuty: Bool) {
        guard isOnDuty != self.isOnDuty else { return }
        self.isOnDuty = isOnDuty
        told?(.duties(isHeld: isOnDuty))
    }

    private func leave() {
        beat?.disarm()
        guard place != nil, let tables else { return }
        do throws(PostgreSQLError) {
            // Another node continues the calls that still wait.
            try tables.send("UPDATE node SET seen = '-infinity' WHERE name = $1 AND run = $2", name, Int64(run))
            _ = try tables.connection.results()
        } catch {
            // The other nodes notice the end of this node by its missing signs of life.
        }
        self.tables = nil
    }

    // MARK: The connection

    private func openTables() throws(PostgreSQLFailure) -> PostgreSQLTables {
        if let tables, tables.connection.isQuiet { return tables }
        tables = nil
        guard SystemClock.now >= pausesUntil else {
            throw .server(PostgreSQLError(kind: .timeout, message: "the server does not answer"))
        }
        let opened = try PostgreSQLFailure.wrapping { () throws(PostgreSQLError) in
            let opened = PostgreSQLTables(
                try address.connect(answersWithin: address.times.write), patience: address.times.write)
            // Lists of users are short, so the indexes are better than a scan of all contacts. Without scans, the server
            // overestimates the costs, and would compile each statement to machine code, which takes 100 ms. A statement
            // whose connection was given up must not wait for locks or standbys. A failover of the server may lose what
            // this connection writes: the next signs of life and questions repeat it.
            _ = try opened.rows(
                """
                SELECT set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
                    set_config('enable_mergejoin', 'off', false), set_config('jit', 'off', false),
                    set_config('lock_timeout', '1500', false), set_config('synchronous_commit', 'local', false)
                """)
            return opened
        }
        try PostgreSQLSchema.state(in: opened).check()
        tables = opened
        return opened
    }

    private func failed(_ error: PostgreSQLFailure) {
        tables = nil
        revisions.forget()
        isAway = true
        // A question during the pause must not make the pause longer.
        if SystemClock.now >= pausesUntil { pausesUntil = SystemClock.now + .milliseconds(.random(in: 200...400)) }
        guard let suppressed = lines.admit(now: SystemClock.now) else { return }
        log.error(
            "the database does not answer this node, so the last known contacts serve calls",
            [
                .reason: .text(error.description), .path: .text(address.name), .suppressed: .number(suppressed),
            ])
    }
}

/// The rows in the answer to the questions that ``PostgreSQLNodes`` asked together.
private struct ReadUsers {
    private var bindings: [AddressOfRecord: [StoredBinding]] = [:]
    private var bucket: [AddressOfRecord: [StoredBucketEntry]] = [:]
    private var rules: [AddressOfRecord: StoredUserRules] = [:]
    private var owners: [DeviceID: AddressOfRecord] = [:]
    private var accounts: [UserSubject: DigestUser] = [:]

    /// Reads the results of ``PostgreSQLTables/sendUsers(_:)``, in the order of its queries.
    init(_ results: inout ArraySlice<PostgreSQLRows>) {
        var texts = ByteStringWriter(capacity: 1 << 12)
        for row in results.popFirst()?.values({ $0.storedBinding(&texts) }) ?? [] {
            bindings[row.aor, default: []].append(row)
            owners[row.id] = row.aor
        }
        for row in results.popFirst()?.values(\.storedBucketEntry) ?? [] { bucket[row.aor, default: []].append(row) }
        for row in results.popFirst()?.values(\.storedUserRules) ?? [] { rules[row.aor] = row }
        for account in results.popFirst()?.values({ $0.storedUser }) ?? [] {
            accounts[.account(name: account.name, realm: account.realm)] = account
        }
    }

    func answer(to subjects: [UserSubject]) -> StoredUsers {
        let users = subjects.compactMap { subject in
            let aor: AddressOfRecord? =
                switch subject {
                case .user(let aor): aor
                case .device(let device): owners[device]
                case .account: nil
                }
            return aor.map { aor in
                StoredUser(
                    aor: aor, bindings: bindings[aor] ?? [], bucketEntries: bucket[aor] ?? [], rules: rules[aor])
            }
        }
        return StoredUsers(users: users, accounts: subjects.compactMap { accounts[$0] })
    }
}
