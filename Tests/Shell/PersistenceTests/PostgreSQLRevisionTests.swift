import PostgreSQLClient
import ProxyCore
import PushDelivery
import Reactor
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite struct `Seen revisions of tables` {
    @Test func `at the start and after an outage, all tables count as changed`() {
        var seen = SeenRevisions()
        #expect(seen.changed(in: []) == Set(OperatorTable.allCases))
        #expect(seen.changed(in: []).isEmpty)
        seen.forget()
        #expect(seen.changed(in: [("apps", 3)]) == Set(OperatorTable.allCases))
        #expect(seen.changed(in: [("apps", 3)]).isEmpty)
    }

    @Test func `a higher or lower revision of a table means a change, and unknown tables do not`() {
        var seen = SeenRevisions()
        _ = seen.changed(in: [("apps", 3)])
        #expect(seen.changed(in: [("apps", 4), ("api-keys", 1), ("of a newer version", 7)]) == [.apps, .keys])
        #expect(seen.changed(in: [("apps", 2), ("api-keys", 1)]) == [.apps])
        #expect(seen.changed(in: [("api-keys", 1)]) == [.apps])
    }
}

/// Tests how a node learns that operators have changed tables at another node.
@Suite(
    "Store in PostgreSQL, revisions", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLRevisionTests {
    /// A node that notes which tables have changed.
    private final class Watcher: Sendable {
        let nodes: PostgreSQLNodes
        private let told = Locked<[Set<OperatorTable>]>([])

        init(_ place: PostgreSQLPlace) throws {
            nodes = try PostgreSQLNodes(place, name: "watcher", log: .silent)
            nodes.join(at: "127.0.0.1:5071") { [told] news in
                if case .changed(let tables) = news { told.withLock { $0.append(tables) } }
            }
        }

        /// Waits for the next news, and returns all news since the last call.
        func next() async throws -> [Set<OperatorTable>] {
            while told.withLock({ $0.isEmpty }) { try await Task.sleep(for: .milliseconds(10)) }
            return told.withLock { told in
                defer { told = [] }
                return told
            }
        }
    }

    private func start() async throws -> (DatabaseServer, StoreFolder, PostgreSQLPlace, Watcher) {
        let server = try await DatabaseServer.startPostgreSQL([])
        let folder = try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres")
        let place = try #require(folder.database)
        try PostgreSQLSchema.migrate(try place.open())
        let watcher = try Watcher(place)
        #expect(try await watcher.next() == [Set(OperatorTable.allCases)])
        return (server, folder, place, watcher)
    }

    private func key(_ name: String) -> ServiceChange {
        .addKey(
            StoredKey(
                name: name, hash: Array(repeating: 7, count: 32), scopes: "tokens", createdAt: UnixTime(seconds: 1),
                domains: ""))
    }

    @Test func `each change of a table by any writer reaches a node, which then reads the change`() async throws {
        let (server, folder, place, watcher) = try await start()
        let tables = try place.open()
        try tables.keep([key("one")])
        #expect(try await watcher.next() == [[.keys]])
        #expect(try tables.keys().map(\.name) == ["one"])
        try tables.keep([.removeKey(name: "one"), .switchProvider(.apns, .off)])
        #expect(try await watcher.next() == [[.keys, .providers]])
        let writer = try ObservedWriter(folder)
        #expect(await writer.write([.service(key("two"))]) == true)
        #expect(try await watcher.next() == [[.keys]])
        #expect(try tables.keys().map(\.name) == ["two"])
        writer.writer.stop()
        watcher.nodes.stop()
        await server.ended()
    }

    @Test func `a transaction that rolls back changes no revision`() async throws {
        let (server, folder, place, watcher) = try await start()
        do {
            let broken = try place.open()
            try broken.connection.begin()
            _ = try broken.apply(.service(key("one")))
            try broken.raiseRevisions(of: [.keys])
            #expect(try broken.rows("SELECT 1::bigint").number == 1)
        }
        let tables = try place.open()
        try tables.keep([.switchProvider(.apns, .off)])
        #expect(try await watcher.next() == [[.providers]])
        #expect(try tables.rows("SELECT count(*) FROM revision").number == 1)
        watcher.nodes.stop()
        _ = folder
        await server.ended()
    }

    @Test func `a change whose commit is under way is not missed, and delays no sign of life`() async throws {
        let (server, folder, place, watcher) = try await start()
        let (slow, tables) = (try place.open(), try place.open())
        try slow.connection.begin()
        _ = try slow.apply(.service(key("one")))
        try slow.raiseRevisions(of: [.keys])
        #expect(try slow.rows("SELECT 1::bigint").number == 1)
        // The node reads the revisions while the transaction of the key is open.
        try tables.keep([.switchProvider(.apns, .off)])
        #expect(try await watcher.next() == [[.providers]])
        #expect(try tables.keys().isEmpty)
        try slow.connection.commit()
        #expect(try await watcher.next() == [[.keys]])
        #expect(try tables.keys().map(\.name) == ["one"])
        watcher.nodes.stop()
        _ = folder
        await server.ended()
    }

    @Test func `two writers at once lose no revision, and do not block each other`() async throws {
        let (server, folder, place, watcher) = try await start()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<2 {
                group.addTask { [self] in
                    let tables = try place.open()
                    for number in 0..<50 {
                        let changes = [
                            key("\(writer)-\(number)"), .switchProvider(.apns, number % 2 == 0 ? .off : .on),
                        ]
                        try tables.keep(writer == 0 ? changes : changes.reversed())
                    }
                }
            }
            try await group.waitForAll()
        }
        let tables = try place.open()
        #expect(try tables.rows("SELECT number FROM revision WHERE name = 'api-keys'").number == 100)
        #expect(try tables.rows("SELECT number FROM revision WHERE name = 'providers'").number == 100)
        // The news about the last revision comes after the commit of the last key.
        var last: Set<OperatorTable> = []
        while !last.contains(.keys) { last = try await watcher.next().last ?? [] }
        #expect(try tables.keys().count == 100)
        watcher.nodes.stop()
        _ = folder
        await server.ended()
    }

    @Test func `after an outage of the database, a node reads all tables again`() async throws {
        let (server, folder, _, watcher) = try await start()
        await server.stopped()
        let answer: StoredUsers? = await withCheckedContinuation { waiter in
            watcher.nodes.read([], waiting: nil) { waiter.resume(returning: $0) }
        }
        #expect(answer == nil)
        server.continues()
        #expect(try await watcher.next() == [Set(OperatorTable.allCases)])
        watcher.nodes.stop()
        _ = folder
        await server.ended()
    }
}
