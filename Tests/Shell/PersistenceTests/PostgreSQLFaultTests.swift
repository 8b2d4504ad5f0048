import Addressing
import Bytes
import LoopTesting
import PostgreSQLClient
import ProxyCore
import Reactor
import Registration
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// Tests the store with a PostgreSQL server that stops, hangs and comes back.
@Suite(
    "Store in PostgreSQL, faults", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLFaultTests {
    private let row = { (id: UInt64) in RowChange.engine(.binding(.upsert(.sample(id)))) }

    private func start() async throws -> (DatabaseServer, StoreFolder) {
        let server = try await DatabaseServer.startPostgreSQL([])
        return (server, try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres"))
    }

    private func exclusive(_ folder: StoreFolder) throws -> PostgreSQLPlace {
        var place = try #require(folder.database)
        place.isExclusive = true
        return place
    }

    /// Waits until the writer has noticed that the server works again.
    private func recovery(of store: ObservedWriter) async throws {
        while store.writer.failure != nil { try await Task.sleep(for: .milliseconds(20)) }
    }

    @Test func `a server that hangs stores nothing, and a refused new contact does not come back with it`() async throws
    {
        let (server, folder) = try await start()
        let store = try ObservedWriter(folder)
        #expect(await store.write([row(1)]) == true)
        await server.stopped()
        // The server gets this commit, but confirms it too late. On a busy machine, the writer may notice the hang before.
        #expect(await store.write([row(2)]) != true)
        // While the server is away, a commit is refused at once, and a record waits.
        #expect(await store.write([row(3)]) == nil)
        #expect(store.writer.record([row(4)]))
        #expect(store.writer.failure?.contains("does not answer") == true)
        server.continues()
        try await recovery(of: store)
        #expect(await store.write([row(5)]) == true)
        #expect(try folder.read().bindings.map(\.id.rawValue) == [1, 4, 5])
        let lines = store.logSink.lines
        #expect(lines.count { $0.contains("the store cannot be written") } == 1)
        #expect(lines.count { $0.contains("the store can be written again") } == 1)
        store.writer.stop()
    }

    @Test func `a server that ends and comes back keeps what it has confirmed`() async throws {
        let (server, folder) = try await start()
        let store = try ObservedWriter(folder)
        #expect(await store.write([row(1)]) == true)
        await server.ended()
        #expect(await store.write([row(2)]) != true)
        #expect(store.writer.record([.service(.note(key: "k", value: "v"))]))
        while store.writer.failure == nil { try await Task.sleep(for: .milliseconds(20)) }
        try await server.startedAgain()
        try await recovery(of: store)
        #expect(await store.write([row(3)]) == true)
        #expect(try folder.read().bindings.map(\.id.rawValue) == [1, 3])
        #expect(try folder.read { try $0.note("k") } == "v")
        store.writer.stop()
    }

    @Test func `one daemon has the store, until its connection ends`() async throws {
        let (server, folder) = try await start()
        var place = try exclusive(folder)
        place.times.lock = .milliseconds(100)
        let first = try StoreWriter(postgreSQL: place, log: .silent) { _ in }
        let refusal = #expect(throws: StoreError.self) { try StoreWriter(postgreSQL: place, log: .silent) { _ in } }
        #expect(refusal?.description.contains("another sippushd uses the database") == true)
        #expect(throws: StoreError.self) { try CommandStore(postgreSQL: place) }
        first.stop()
        place.times.lock = .seconds(60)
        try StoreWriter(postgreSQL: place, log: .silent) { _ in }.stop()
        await server.ended()
    }

    @Test func `a value that the database refuses fails its own transaction only`() async throws {
        let (server, folder) = try await start()
        let store = try ObservedWriter(folder)
        #expect(await store.write([row(1)]) == true)
        let request = DeviceRequest(
            id: RequestID.make(), kind: .registration, app: "a", user: "bob", platform: .apple, token: "t",
            isTracked: true, callback: nil, acceptedAt: UnixTime(seconds: 1))
        #expect(await store.write([.service(.deviceRequest(request)), .service(.deviceRequest(request))]) == false)
        #expect(await store.write([row(2)]) == true)
        // Zero bytes, which PostgreSQL's texts cannot have, are replaced.
        #expect(await store.write([.service(.note(key: "k", value: "a\0b"))]) == true)
        #expect(try folder.read { try $0.note("k") } == "a\u{FFFD}b")
        store.writer.stop()
        await server.ended()
    }

    @Test func `a database of another store, and a newer schema, are refused`() async throws {
        let (server, folder) = try await start()
        let store = try ObservedWriter(folder)
        #expect(await store.write([row(1)]) == true)
        try folder.execute("UPDATE meta SET value = 'other' WHERE key = 'store-id'")
        await server.stopped()
        #expect(await store.write([row(2)]) == false)
        server.continues()
        while store.writer.failure?.contains("another store") != true { try await Task.sleep(for: .milliseconds(20)) }
        store.writer.stop()
        try folder.execute("INSERT INTO sippushd_schema VALUES (99)")
        let refusal = #expect(throws: StoreError.self) { try ObservedWriter(folder) }
        #expect(refusal?.description.contains("schema 99") == true)
        await server.ended()
    }

    @Test func `the first host that answers is used, and each host is a server`() async throws {
        let (server, folder) = try await start()
        let hosts = "host=\(folder.folder),\(server.folder.path)"
        let place = try PostgreSQLPlace("\(hosts) user=sippushd dbname=postgres")
        let tables = try place.open()
        #expect(try tables.rows("SELECT 7::bigint").number == 7)
        await server.ended()
        let away = #expect(throws: PostgreSQLFailure.self) { try place.open() }
        #expect(away?.description.contains("\(folder.folder): ") == true)
        #expect(away?.description.contains("; \(server.folder.path): ") == true)

        #expect(try PostgreSQLPlace("host=a,b port=1,2 dbname=x").name == "postgresql a,b x")
        #expect(try PostgreSQLPlace("postgresql://u@a:1,b:2/x?sslmode=require").servers.map(\.name) == ["a", "b"])
        #expect(try PostgreSQLPlace("dbname=x").servers.count == 1)
        #expect(throws: StoreError.self) { try PostgreSQLPlace("host") }
    }

    @Test func `an unsafe server is named`() async throws {
        // The tests' servers have fsync off.
        let (server, folder) = try await start()
        let store = try ObservedWriter(folder)
        #expect(store.logSink.lines.contains { $0.contains("can lose changes") && $0.contains("fsync") })
        let loop = try EventLoop()
        let whole = try folder.open(loop: loop)
        #expect(whole.shortcoming?.contains("fsync = on") == true && whole.obstacle == nil)
        whole.close()
        store.writer.stop()
        await server.ended()
    }

    @Test func `the rules of a safe cluster`() {
        var found = PostgreSQLDurability()
        #expect(found.shortcoming == nil)
        found.synchronousCommit = "off"
        #expect(found.shortcoming?.reason.contains("synchronous_commit is off") == true)
        found.synchronousCommit = "local"
        #expect(found.shortcoming == nil)
        found.standbys = 1
        #expect(found.shortcoming?.reason.contains("synchronous_standby_names is empty") == true)
        found.synchronousStandbys = "ANY 1 (*)"
        #expect(found.shortcoming?.reason.contains("local") == true)
        found.synchronousCommit = "remote_write"
        #expect(found.shortcoming == nil)
        (found.standbys, found.servers, found.synchronousStandbys) = (0, 2, "")
        #expect(found.shortcoming?.cure.contains("ANY 1 (*)") == true)
        found.fsync = "off"
        #expect(found.shortcoming?.reason.contains("power failure") == true)
    }
}
