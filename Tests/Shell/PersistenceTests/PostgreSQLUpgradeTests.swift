import Addressing
import Bytes
import Calling
import Collections
import Foundation
import Messaging
import PostgreSQLClient
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Reactor
import Registration
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// Tests that programs of two versions use one database, as the nodes of a cluster do during an upgrade.
@Suite(
    "Store in PostgreSQL, two versions", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLUpgradeTests {
    private typealias Migration = PostgreSQLSchema.Migration

    private let date = UnixTime(seconds: 1_800_000_000)
    private let row = { (id: UInt64) in RowChange.engine(.binding(.upsert(.sample(id)))) }
    private var known: [Migration] { PostgreSQLSchema.migrations }

    private func start() async throws -> (DatabaseServer, StoreFolder) {
        let server = try await DatabaseServer.startPostgreSQL([])
        return (server, try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres"))
    }

    /// The database for a node of a cluster.
    private func node(_ name: String, _ folder: StoreFolder, version: String = "1") throws -> PostgreSQLPlace {
        var place = try #require(folder.database)
        (place.node, place.version, place.isExclusive) = (name, version, true)
        place.times.lock = .seconds(60)
        return place
    }

    private func log(_ sink: MemoryLogSink) -> Log {
        Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) }
    }

    /// The migration of a newer version: all that a compatible migration may do, in each table.
    private func addition(_ folder: StoreFolder, oldest: Int) throws -> Migration {
        let names = try #require(folder.database).open().rows(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
        ).values { $0.text(0) }
        #expect(names.count > 20)
        return Migration(
            oldest: oldest,
            statements: names.map {
                "ALTER TABLE \($0) ADD COLUMN later text, ADD COLUMN later_count bigint NOT NULL DEFAULT 7"
            } + ["CREATE TABLE later (id bigint PRIMARY KEY)"])
    }

    /// Ends all other connections to the server.
    private func cut(_ folder: StoreFolder) throws {
        try folder.execute(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
            """)
    }

    /// The highest `version` that the first version with nodes sees.
    private func firstSees(_ folder: StoreFolder) throws -> Int64 {
        try folder.number("SELECT max(version) FROM sippushd_schema")
    }

    // MARK: The step from the first version

    @Test func `a database of the first version is migrated, and that version can still use it`() async throws {
        let (server, folder) = try await start()
        let place = try node("a", folder)
        try PostgreSQLSchema.migrate(try place.open(), by: Array(known.prefix(2)))
        #expect(try folder.number("SELECT count(*) FROM sippushd_schema") == 2)
        // A node of the first version holds the lock of the store, and its row has four columns.
        let first = try node("first", folder).open()
        var lock = PostgreSQLLock(of: "first")
        try lock.take(on: first, patience: .zero)
        let sign = """
            INSERT INTO node VALUES ($1, $2, $3, clock_timestamp())
            ON CONFLICT (name) DO UPDATE SET place = $2, run = $3, seen = clock_timestamp() RETURNING run
            """
        #expect(try first.rows(sign, "first", "127.0.0.1:1", Int64(1)).number == 1)
        let sink = MemoryLogSink()
        let writer = try StoreWriter(postgreSQL: place, log: log(sink)) { _ in }
        #expect(sink.lines.contains { $0.contains("the database has been migrated") && $0.contains("2 to 3") })
        #expect(try firstSees(folder) == 2)
        #expect(try PostgreSQLSchema.state(in: place.open()).number == known.count)
        #expect(try first.rows(sign, "first", "127.0.0.1:1", Int64(2)).number == 2)
        let nodes = try PostgreSQLNodes(place, name: "a", log: .silent)
        #expect(try PostgreSQLExamination.mixed(first) == "a has 1, first has an unknown version")
        nodes.stop()
        writer.stop()
        await server.ended()
    }

    @Test(arguments: [0, 2]) func `nodes that start together migrate once`(schema: Int) async throws {
        let (server, folder) = try await start()
        if schema > 0 { try PostgreSQLSchema.migrate(try node("x", folder).open(), by: Array(known.prefix(schema))) }
        let places = try (1...8).map { try node("n\($0)", folder) }
        await withTaskGroup { group in
            for place in places {
                group.addTask {
                    #expect(throws: Never.self) {
                        try StoreWriter(postgreSQL: place, log: .silent) { _ in }.stop()
                    }
                }
            }
        }
        #expect(try folder.number("SELECT count(*) FROM sippushd_schema WHERE number = 3") == 1)
        await server.ended()
    }

    // MARK: A newer version beside this version

    @Test func `a compatible migration under a running node breaks nothing, also after the node reconnects`()
        async throws
    {
        let (server, folder) = try await start()
        let place = try node("a", folder)
        let store = try ObservedWriter(on: place)
        let nodes = try PostgreSQLNodes(place, name: "a", log: .silent)
        let tables = try place.open()
        try await use(store, nodes, tables, id: 1)

        let newer = known + [try addition(folder, oldest: known.count)]
        let other = try node("b", folder).open()
        var lock = PostgreSQLLock(of: "b")
        try lock.take(on: other, patience: .zero)
        #expect(try PostgreSQLSchema.migrate(other, by: newer).number == known.count)
        #expect(try PostgreSQLSchema.state(in: other).number == newer.count)

        // The statements are prepared since before the migration.
        try await use(store, nodes, tables, id: 2)
        try cut(folder)
        while await store.write([row(7)]) != true { try await Task.sleep(for: .milliseconds(20)) }
        let user = UserSubject.user(AddressOfRecord(user: ByteString("bob"), host: ByteString("example.org")))
        while await users(nodes, user)?.users.isEmpty != false { try await Task.sleep(for: .milliseconds(20)) }
        try await use(store, nodes, try place.open(), id: 3)
        #expect(store.logSink.lines.count { $0.contains("another node has migrated the database") } == 1)
        nodes.stop()
        store.writer.stop()

        // A restart works too. A copy would lose what the newer version has written.
        let again = try ObservedWriter(on: place)
        #expect(again.logSink.lines.count { $0.contains("another node has migrated the database") } == 1)
        #expect(await again.write([row(8)]) == true)
        again.writer.stop()
        let target = try StoreFolder(on: nil)
        let refusal = #expect(throws: StoreError.self) { try StoreCopy(from: folder.place, to: target.place) }
        #expect(refusal?.description.contains("with the newer version") == true)
        _ = try StoreCopy(from: target.filled(), to: try emptied(folder)).run { _ in }
        await server.ended()
    }

    /// A store on the same server, without rows, that a newer version has migrated.
    private func emptied(_ folder: StoreFolder) throws -> StorePlace {
        for table in CopiedTable.all { try folder.execute("TRUNCATE \(table.postgreSQL)") }
        return folder.place
    }

    @Test func `an incompatible migration waits for the end of older nodes, which then do not return`() async throws {
        let (server, folder) = try await start()
        let store = try ObservedWriter(on: try node("a", folder))
        let nodes = try PostgreSQLNodes(try node("a", folder), name: "a", log: .silent)
        let breaking = Migration(oldest: known.count + 1, statements: ["ALTER TABLE binding DROP COLUMN nonce_count"])
        let newer = known + [breaking]
        func migrate() throws {
            let tables = try node("b", folder).open()
            var lock = PostgreSQLLock(of: "b")
            try lock.take(on: tables, patience: .zero)
            try PostgreSQLSchema.migrate(tables, by: newer)
        }
        let refusal = #expect(throws: PostgreSQLFailure.self) { try migrate() }
        #expect(refusal?.description.contains("needs the end of all nodes with a schema before 4") == true)
        #expect(await store.write([row(1)]) == true)
        nodes.stop()
        store.writer.stop()
        try migrate()
        let late = #expect(throws: StoreError.self) { try ObservedWriter(on: try node("a", folder)) }
        #expect(
            late?.description.contains("needs a program with schema 4 or later, and this program has schema 3") == true)
        #expect(try firstSees(folder) == 4)
        if case .away(let reason) = PostgreSQLExamination(of: try node("a", folder)) {
            #expect(reason.contains("a newer version wrote"))
        } else {
            Issue.record("doctor does not see the newer schema")
        }
        await server.ended()
    }

    @Test func `a node that was cut off during an incompatible migration refuses the database`() async throws {
        let (server, folder) = try await start()
        // Without the lock, the writer is like a node whose connection has ended.
        let store = try ObservedWriter(folder)
        let nodes = try PostgreSQLNodes(try node("a", folder), name: "a", log: .silent)
        #expect(await store.write([row(1)]) == true)
        // The old statements still work after this migration, but their rows would be wrong.
        let breaking = Migration(oldest: known.count + 1, statements: ["UPDATE binding SET nonce = -nonce"])
        try PostgreSQLSchema.migrate(try #require(folder.database).open(), by: known + [breaking])
        try cut(folder)
        _ = await store.write([row(2)])
        while store.writer.failure?.contains("Install the newer version again") != true {
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(await users(nodes, .user(alice)) == nil)
        nodes.stop()
        store.writer.stop()
        await server.ended()
    }

    @Test func `a newer migration asks the rows of nodes which schemas still run`() async throws {
        let (server, folder) = try await start()
        let old = try ObservedWriter(on: try node("a", folder))
        let nodes = try PostgreSQLNodes(try node("a", folder), name: "a", log: .silent)
        let step = Migration(oldest: known.count, statements: ["CREATE TABLE later (id bigint)"])
        // Programs with schema 3 bear the next step, but programs before do not.
        let tables = try node("b", folder).open()
        try PostgreSQLSchema.migrate(tables, by: known + [step])
        #expect(try firstSees(folder) == known.count)
        try folder.execute("UPDATE node SET described_run = run - 1")
        let later = try node("c", folder).open()
        let further = Migration(oldest: known.count, statements: [])
        let refusal = #expect(throws: PostgreSQLFailure.self) {
            try PostgreSQLSchema.migrate(later, by: known + [step, further])
        }
        #expect(refusal?.description.contains("needs the end of all nodes with a schema before 3") == true)
        nodes.stop()
        old.writer.stop()
        await server.ended()
    }

    // MARK: Locks

    @Test func `a migration does not wait behind a backup while another node runs, and is tried again`() async throws {
        let (server, folder) = try await start()
        try PostgreSQLSchema.migrate(try node("x", folder).open(), by: Array(known.prefix(2)))
        let first = try node("first", folder).open()
        var lock = PostgreSQLLock(of: "first")
        try lock.take(on: first, patience: .zero)
        // pg_dump holds such a lock for its whole time.
        let backup = try #require(folder.database).open()
        try backup.connection.begin()
        #expect(try backup.rows("SELECT count(*) FROM node").number == 0)

        let single = #expect(throws: PostgreSQLFailure.self) {
            try PostgreSQLSchema.migrate(try node("b", folder).open())
        }
        guard case .busyTables? = single else { throw TestFailure("\(String(describing: single))") }
        // The failed try has left no lock.
        #expect(try first.rows("SELECT count(*) FROM node").number == 0)

        let sink = MemoryLogSink()
        let (place, log) = (try node("b", folder), log(sink))
        async let writer = StoreWriter.opened(place, log)
        while !sink.lines.contains(where: { $0.contains("their migration is tried again") }) {
            try await Task.sleep(for: .milliseconds(20))
        }
        try backup.connection.commit()
        try await writer.stop()
        #expect(sink.lines.count { $0.contains("their migration is tried again") } == 1)
        #expect(try PostgreSQLSchema.state(in: first).number == known.count)
        await server.ended()
    }

    @Test func `a migration that is lost in a failover is made again`() async throws {
        let (server, folder) = try await start()
        let store = try ObservedWriter(on: try node("a", folder))
        #expect(await store.write([row(1)]) == true)
        for statement in [
            "DELETE FROM sippushd_schema WHERE number = 3", "ALTER TABLE sippushd_schema DROP COLUMN number",
            "ALTER TABLE node DROP COLUMN version, DROP COLUMN schema_number, DROP COLUMN described_run",
            "DROP TABLE duty", "ALTER TABLE held_call DROP COLUMN changes",
        ] { try folder.execute(statement) }
        try cut(folder)
        while await store.write([row(2)]) != true { try await Task.sleep(for: .milliseconds(20)) }
        #expect(try PostgreSQLSchema.state(in: try node("a", folder).open()).number == known.count)
        store.writer.stop()
        await server.ended()
    }

    // MARK: Versions of nodes

    @Test func `a node names the version of another node, and that it differs`() async throws {
        let (server, folder) = try await start()
        try PostgreSQLSchema.migrate(try node("x", folder).open())
        let sink = MemoryLogSink()
        let a = try PostgreSQLNodes(try node("a", folder, version: "0.2.0"), name: "a", log: log(sink))
        let b = try PostgreSQLNodes(try node("b", folder, version: "0.2.0"), name: "b", log: .silent)
        let c = try PostgreSQLNodes(try node("c", folder, version: "0.3.0"), name: "c", log: .silent)
        for (index, node) in [c, b, a].enumerated() { node.join(at: "127.0.0.\(index + 1):5071") { _ in } }
        func lines(_ text: String) -> [String] { sink.lines.filter { $0.contains(text) } }
        while lines("another node of the cluster is here").count < 2 { try await Task.sleep(for: .milliseconds(20)) }
        #expect(lines("another node of the cluster is here").contains { $0.contains("b 127") && $0.contains("0.2.0") })
        #expect(lines("has another version").count == 1)
        #expect(lines("has another version").contains { $0.contains("c 127") && $0.contains("0.3.0, here 0.2.0") })
        for node in [a, b, c] { node.stop() }
        await server.ended()
    }

    // MARK: All statements

    /// Writes and reads each table, as the writer, the node's thread and the reader do.
    private func use(_ store: ObservedWriter, _ nodes: PostgreSQLNodes, _ tables: PostgreSQLTables, id: UInt64)
        async throws
    {
        let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.org"))
        let source = Flow(
            transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x7f00_0001), 9))
        #expect(await store.write(changes(id, bob, source)) == true)
        #expect(try tables.bindings(after: nil, limit: 100).contains { $0.id.rawValue == id })
        #expect(try tables.bindings(after: DeviceID(rawValue: 0), limit: 100).isEmpty == false)
        #expect(try tables.userAgents(of: [DeviceID(rawValue: id)]).isEmpty)
        #expect(try tables.bucketEntries().isEmpty == false)
        #expect(try tables.messages().contains { $0.id == id })
        #expect(try tables.users().isEmpty == false)
        #expect(try tables.userNames(after: .empty, in: .empty, limit: 9, of: nil).isEmpty == false)
        #expect(try tables.userRules().isEmpty == false)
        #expect(try tables.userRules(of: bob) != nil)
        #expect(try tables.providers(.off) == [.fcm])
        #expect(try tables.dialogRenewals(after: UnixTime(seconds: 1)).isEmpty == false)
        let push = PushCode.sample(id)
        #expect(try tables.timeline(of: .push(push), limit: 9).count == 1)
        #expect(try tables.refusals(of: .callID(ByteString("c\(100 + id)")), limit: 9, in: nil).count == 1)
        #expect(try tables.unreadPushes(since: UnixTime(seconds: 1), after: nil, limit: 9).isEmpty == false)
        #expect(try tables.statistics(StatisticsQuestion()).elements.isEmpty == false)
        _ = try tables.wakes(WakeQuestion(days: 0...50_000))
        _ = try tables.uncountedRecords()
        #expect(
            try tables.deadTokens(since: UnixTime(seconds: 1), after: .beginning, limit: 9, in: nil).elements.isEmpty
                == false)
        #expect(try tables.keys().contains { $0.name == "key \(id)" })
        #expect(try tables.mobileApps().contains { $0.name == "app \(id)" })
        #expect(try tables.mobileDevices(of: "bob", app: "a", token: nil) == ["t"])
        #expect(try tables.mobileOwners(of: "t").isEmpty == false)
        #expect(try tables.openDeviceRequests().isEmpty == false)
        #expect(try tables.provisionLinks().isEmpty == false)
        #expect(try tables.secrets(named: "seal").isEmpty == false)
        #expect(try tables.note("k") == "v")
        for table in CopiedTable.all {
            _ = try tables.rows(of: table, after: nil, limit: 9)
            _ = try tables.lastKey(of: table)
        }
        try await useNode(nodes, tables, id, bob, source)
    }

    private func useNode(
        _ nodes: PostgreSQLNodes, _ tables: PostgreSQLTables, _ id: UInt64, _ bob: AddressOfRecord, _ source: Flow
    ) async throws {
        let invite = HeldInvite(
            aor: bob, callID: ByteString("call \(id)"), request: ByteString("INVITE"), source: source,
            until: UnixTime(seconds: 2_000_000_000))
        let account = UserSubject.account(name: ByteString("bob"), realm: ByteString("r"))
        let found = try #require(
            await users(nodes, .user(bob), account, waiting: Announcement(aor: bob, invite: invite)))
        #expect(found.users.first?.bindings.isEmpty == false)
        #expect(found.users.first?.bucketEntries.isEmpty == false && found.users.first?.rules != nil)
        #expect(found.accounts.count == 1)
        #expect(try tables.rows("SELECT count(*) FROM waiting").number == 1)
        #expect(try tables.rows("SELECT count(*) FROM held_call").number == 1)
        // Another node takes over the calls and the messages of a node that has ended.
        let other = "other \(id)"
        try tables.send(
            alive: other, at: "127.0.0.9:1", run: 1 << 20, version: "1", takesOver: false, keepsOld: true)
        try tables.sendCounts(besides: 1 << 20, after: ToldCounts.Places())
        _ = try tables.connection.results()
        _ = try tables.rows(
            """
            INSERT INTO node (name, place, run, seen) VALUES ('a', '', 1, '-infinity')
            ON CONFLICT (name) DO UPDATE SET seen = '-infinity' RETURNING run
            """)
        try tables.send(
            alive: other, at: "127.0.0.9:1", run: 1 << 20, version: "1", takesOver: false, keepsOld: true)
        try tables.send(messagesTo: other, run: 1 << 20, isStart: true, after: -1)
        try tables.send(
            told: ToldCounts.Unsent.Row(number: Int64(id), counts: [], at: SystemClock.now), run: 1 << 20,
            now: SystemClock.now)
        let rows = try tables.connection.results()
        #expect(rows[1].values(\.heldInvite) == [invite])
        #expect(rows[4].values(\.storedMessage).contains { $0.id == id })
    }

    private func users(
        _ nodes: PostgreSQLNodes, _ subjects: UserSubject..., waiting: Announcement? = nil
    ) async -> StoredUsers? {
        await withCheckedContinuation { waiter in
            nodes.read(subjects, waiting: waiting) { waiter.resume(returning: $0) }
        }
    }

    private func changes(_ id: UInt64, _ bob: AddressOfRecord, _ source: Flow) -> [RowChange] {
        let user = DigestUser(name: ByteString("bob"), realm: ByteString("r"), ha1: [.md5: ByteString("aa")])
        let request = DeviceRequest(
            id: RequestID.make(), kind: .registration, app: "a", user: "bob", platform: .apple, token: "t",
            isTracked: true, callback: nil, acceptedAt: date)
        let dead = DeadToken(
            token: PushToken(provider: .fcm, param: .empty, prid: ByteString("\(id)")), since: date, recordedAt: date,
            source: .provider, domain: ByteString("example.net"))
        var refused = TimelineRecord.sample(100 + id, at: date)
        refused.refused(.foreignDomain, 403, share: .user)
        let message = StoredMessage(
            id: id, aor: bob, sender: ByteString("sip:103@x"), source: source, receivedAt: date, expiresAt: date,
            devices: [], request: ByteString("MESSAGE"))
        let hash = [UInt8](repeating: UInt8(truncatingIfNeeded: id), count: 32)
        let link = StoredProvisionLink(
            hash: hash, name: ByteString("carol\(id)"), realm: ByteString("r"), domain: ByteString("example.org"),
            createdAt: date, expiresAt: date, setsPassword: true, creator: "x")
        let rules = StoredUserRules(aor: bob, rules: CallRules())
        let entry = RowChange.bucket(bob, .upsert(.sample(id)))
        return [
            row(id), entry, .engine(.message(.insert(message))), .engine(.deadToken(dead)),
            .engine(.dialogRenewed(id, until: date)), .engine(.userRules(rules)), .service(.addUser(user)),
            .service(.note(key: "k", value: "v")), .service(.switchProvider(.fcm, .off)),
            .service(.deviceRequest(request)), .service(.mobileDevice(request)), .service(.addProvisionLink(link)),
            .service(
                .useProvisionLink(
                    ProvisionLinkUse(
                        hash: hash, date: UnixTime(seconds: 1_700_000_000), source: "192.0.2.1", user: user))),
            .service(.addSecret(StoredSecret(name: "seal", createdAt: date, value: [0, 255, 1]))),
            .service(
                .addKey(StoredKey(name: "key \(id)", hash: hash, scopes: "admin", createdAt: date, domains: ""))),
            .service(
                .addApp(
                    StoredMobileApp(
                        name: "app \(id)", id: "id \(id)", organisation: "o", tokenHash: hash, user: "{{user}}",
                        appleProvider: "apns", appleParam: nil, googleParam: nil, createdAt: date))),
            .timeline(.record(.sample(id, at: date))), .timeline(.record(refused)), .countWakes(limit: 10),
        ]
    }
}

private struct TestFailure: Error {
    let text: String

    init(_ text: String) { self.text = text }
}

extension StoreWriter {
    /// Opens the store on another thread.
    fileprivate static func opened(_ place: PostgreSQLPlace, _ log: Log) async throws -> StoreWriter {
        try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(with: Result { try StoreWriter(postgreSQL: place, log: log) { _ in } })
            }
        }
    }
}

extension StoreFolder {
    /// The place of a store with one row.
    fileprivate func filled() throws -> StorePlace {
        try keep([.note(key: "k", value: "v")])
        return place
    }
}
