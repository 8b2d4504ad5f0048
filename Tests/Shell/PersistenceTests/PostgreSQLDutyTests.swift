import Addressing
import Bytes
import PostgreSQLClient
import ProxyCore
import Reactor
import Registration
import Routing
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// Tests the duties that a PostgreSQL server gives to one node: who has them, and the search for contacts.
@Suite(
    "Store in PostgreSQL, duties", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLDutyTests {
    private func start() async throws -> (DatabaseServer, StoreFolder, PostgreSQLPlace) {
        let server = try await DatabaseServer.startPostgreSQL([])
        let folder = try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres")
        let place = try #require(folder.database)
        try PostgreSQLSchema.migrate(try place.open())
        return (server, folder, place)
    }

    /// The nodes that have the duties, as they have been told.
    private final class Owners: Sendable {
        private let owners = Locked<Set<Int>>([])
        private let most = Locked(0)

        func join(_ node: PostgreSQLNodes, as index: Int) {
            node.join(at: "127.0.0.\(index + 1):5071") { [self] news in
                guard case .duties(let isHeld) = news else { return }
                let count = owners.withLock { owners in
                    if isHeld { owners.insert(index) } else { owners.remove(index) }
                    return owners.count
                }
                most.withLock { $0 = max($0, count) }
            }
        }

        func forget(_ index: Int) { owners.withLock { _ = $0.remove(index) } }

        /// Waits until one node has the duties.
        func owner() async throws -> Int {
            while true {
                if let owner = owners.withLock({ $0.first }) { return owner }
                try await Task.sleep(for: .milliseconds(20))
            }
        }

        var mostTogether: Int { most.withLock { $0 } }
    }

    @Test func `one node of three has the duties, and each other node gets them after the end of the owner`()
        async throws
    {
        let (server, folder, place) = try await start()
        let nodes = try ["a", "b", "c"].map { try PostgreSQLNodes(place, name: $0, log: .silent) }
        let owners = Owners()
        for (index, node) in nodes.enumerated() { owners.join(node, as: index) }
        var seen: [Int] = []
        while seen.count < nodes.count {
            let owner = try await owners.owner()
            seen.append(owner)
            owners.forget(owner)
            nodes[owner].stop()
        }
        #expect(seen.sorted() == [0, 1, 2])
        #expect(owners.mostTogether == 1)
        _ = folder
        await server.ended()
    }

    @Test func `a node gets the duties of a node without signs of life, and of an earlier run of its own`() async throws
    {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        try tables.transaction { () throws(PostgreSQLError) in
            try tables.send("INSERT INTO node VALUES ('dead', '127.0.0.9:5071', 900, clock_timestamp())")
            try tables.send("INSERT INTO duty VALUES ('cluster', 900)")
        }
        let node = try PostgreSQLNodes(place, name: "a", log: .silent)
        let owners = Owners()
        owners.join(node, as: 0)
        #expect(try await owners.owner() == 0)
        #expect(try tables.rows("SELECT name FROM node").values { $0.text(0) } == ["a"])
        node.stop()
        let again = try PostgreSQLNodes(place, name: "a", log: .silent)
        let later = Owners()
        later.join(again, as: 0)
        #expect(try await later.owner() == 0)
        #expect(try tables.rows("SELECT run FROM duty").values { $0.integer(0) } == [Int64(again.run)])
        again.stop()
        _ = folder
        await server.ended()
    }

    @Test func `a page has the expired contacts without push and the contacts that need a push, and knows its end`()
        async throws
    {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        let now = UnixTime(seconds: 1_800_000_000)
        // Number, is push, seconds until the expiry.
        let contacts: [(UInt64, Bool, Int64)] = [
            (1, false, -1), (2, false, 60), (3, true, -1), (4, true, 60), (5, true, 900), (6, false, 0),
        ]
        try tables.transaction { () throws(PostgreSQLError) in
            for (id, isPush, rest) in contacts {
                _ = try tables.apply(.engine(.binding(.upsert(.due(id, isPush: isPush, at: now + .seconds(rest))))))
            }
        }
        let nodes = try PostgreSQLNodes(place, name: "a", log: .silent)
        func page(after: DeviceID?, limit: Int, lead: Int64? = 100) async -> ContactPage? {
            let question = ContactSearch.Question(
                number: 1, after: after, limit: limit,
                wanted: .expiring(date: now, refreshUntil: lead.map { now + .seconds($0) }))
            return await withCheckedContinuation { waiter in
                nodes.contacts(question) { waiter.resume(returning: $0) }
            }
        }
        let whole = try #require(await page(after: nil, limit: 10))
        #expect(whole.rows.map(\.id.rawValue) == [1, 4, 6])
        #expect(whole.last == nil && whole.latest == now + .seconds(900))
        let first = try #require(await page(after: nil, limit: 4))
        #expect(first.rows.map(\.id.rawValue) == [1, 4])
        #expect(first.last == 4 && first.latest == now + .seconds(60))
        let rest = try #require(await page(after: first.last, limit: 4))
        #expect(rest.rows.map(\.id.rawValue) == [6] && rest.last == nil)
        #expect(await page(after: nil, limit: 10, lead: nil)?.rows.map(\.id.rawValue) == [1, 6])
        func withPush(_ domain: String) async -> [UInt64]? {
            let question = ContactSearch.Question(
                number: 1, after: 2, limit: 3, wanted: .withPush(of: [ByteString("other.net"), ByteString(domain)]))
            return await withCheckedContinuation { waiter in
                nodes.contacts(question) { waiter.resume(returning: $0?.rows.map(\.id.rawValue)) }
            }
        }
        #expect(await withPush("example.org") == [3, 4, 5])
        #expect(await withPush("example.net") == [])
        await server.stopped()
        #expect(await page(after: nil, limit: 10) == nil)
        server.continues()
        nodes.stop()
        _ = folder
        await server.ended()
    }

    @Test func `an expired contact is deleted only if the phone has not registered again`() async throws {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        let row = StoredBinding.due(1, isPush: false, at: UnixTime(seconds: 1_800_000_000))
        try tables.transaction { () throws(PostgreSQLError) in
            _ = try tables.apply(.engine(.binding(.upsert(row))))
            _ = try tables.apply(
                .engine(.binding(.expire(1, registeredAt: row.registeredAt + .milliseconds(-1)))))
        }
        #expect(try tables.bindings(after: nil, limit: 10).count == 1)
        try tables.transaction { () throws(PostgreSQLError) in
            _ = try tables.apply(.engine(.binding(.expire(1, registeredAt: row.registeredAt))))
        }
        #expect(try tables.bindings(after: nil, limit: 10).isEmpty)
        _ = folder
        await server.ended()
    }
}

extension StoredBinding {
    fileprivate static func due(_ id: UInt64, isPush: Bool, at date: UnixTime) -> StoredBinding {
        let row = sample(id)
        return StoredBinding(
            id: row.id, aor: row.aor, contact: row.contact, callID: row.callID, cseq: row.cseq, path: row.path,
            flow: row.flow, granted: row.granted, freshUntil: date, registeredAt: date + .seconds(-3600),
            isPush: isPush, nonce: row.nonce)
    }
}
