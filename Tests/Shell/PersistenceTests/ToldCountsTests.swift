import PostgreSQLClient
import ProxyCore
import Reactor
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite struct `Counts of nodes in the database` {
    private let counts = [
        SharedCount(.wrongLoginsOfSource, .max, count: 3, age: .milliseconds(700)),
        SharedCount(.pushesToDevice, 5, count: 70_000, age: .zero),
    ]

    @Test func `a row has all counts, with the age of the row`() {
        let bytes = ToldCounts.bytes(of: counts, aged: .seconds(1))
        #expect(
            ToldCounts.counts(in: bytes, of: 0, writtenBefore: .seconds(2))
                == counts.map { SharedCount($0.limit, $0.key, count: $0.count, age: $0.age + .seconds(3)) })
    }

    @Test func `malformed rows and unknown limits are no counts`() {
        var bytes = ToldCounts.bytes(of: counts)
        bytes[0] = 200
        #expect(ToldCounts.counts(in: bytes, of: 0, writtenBefore: .zero) == [counts[1]])
        for length in 0..<bytes.count {
            #expect(ToldCounts.counts(in: Array(bytes.prefix(length)), of: 0, writtenBefore: .zero).count <= 1)
        }
    }

    @Test func `each row is read once, and runs without new rows are forgotten`() {
        var places = ToldCounts.Places()
        let start = Instant(nanoseconds: 1_000_000_000)
        let reads = [(1, 7), (2, 7), (2, 7), (1, 7), (1, 8)].map { number, run in
            places.read(Int64(number), of: Int64(run), now: start)
        }
        #expect(reads == [true, true, false, false, true])
        #expect(Set(places.runs) == [7, 8])
        _ = places.read(5, of: 8, now: start + .seconds(100))
        places.prune(now: start + .seconds(130))
        #expect(places.runs == [8] && places.numbers == [5])
    }

    @Test func `rows wait for the database, but not without limit`() {
        var unsent = ToldCounts.Unsent()
        for _ in 0..<100 { unsent.add(counts, now: Instant(nanoseconds: 1)) }
        #expect(unsent.rows.map(\.number) == Array(71...100))
        unsent.confirmed()
        unsent.add(counts, now: Instant(nanoseconds: 1))
        #expect(unsent.rows.map(\.number) == [101])
    }
}

/// Tests how nodes exchange the counts of limits through a PostgreSQL server.
@Suite(
    "Store in PostgreSQL, counts", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLCountTests {
    private final class Node: Sendable {
        let nodes: PostgreSQLNodes
        private let told = Locked<[SharedCount]>([])

        init(_ place: PostgreSQLPlace, _ name: String, port: Int) throws {
            nodes = try PostgreSQLNodes(place, name: name, log: .silent)
            nodes.join(at: "127.0.0.1:\(port)") { [told] news in
                if case .counts(let counts) = news { told.withLock { $0 += counts } }
            }
        }

        /// Waits until the other nodes have told events of the key, and returns the number of events.
        func events(of key: UInt64, atLeast count: Int) async throws -> Int {
            func sum() -> Int { told.withLock { $0.filter { $0.key == key }.map(\.count).reduce(0, +) } }
            while sum() < count { try await Task.sleep(for: .milliseconds(10)) }
            return sum()
        }

        var ages: [Duration] { told.withLock { $0.map(\.age) } }
    }

    private func start() async throws -> (DatabaseServer, StoreFolder, PostgreSQLPlace) {
        let server = try await DatabaseServer.startPostgreSQL([])
        let folder = try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres")
        let place = try #require(folder.database)
        try PostgreSQLSchema.migrate(try place.open())
        return (server, folder, place)
    }

    @Test func `each node learns the counts of all other nodes once, also of ended ones`() async throws {
        let (server, folder, place) = try await start()
        let (a, b) = (try Node(place, "a", port: 1), try Node(place, "b", port: 2))
        for _ in 0..<3 { a.nodes.tell([SharedCount(.wrongLoginsOfSource, 7, count: 2)]) }
        b.nodes.tell([SharedCount(.wrongLoginsOfSource, 8, count: 5)])
        #expect(try await b.events(of: 7, atLeast: 6) == 6)
        #expect(try await a.events(of: 8, atLeast: 5) == 5)
        a.nodes.stop()
        // A new node, and a new run of the ended node, learn the counts of the last minute.
        let (c, again) = (try Node(place, "c", port: 3), try Node(place, "a", port: 1))
        #expect(try await c.events(of: 7, atLeast: 6) == 6)
        #expect(try await again.events(of: 7, atLeast: 6) == 6)
        // A count that comes later shows that the earlier counts were added only once.
        c.nodes.tell([SharedCount(.pushesToDevice, 9, count: 1)])
        #expect(try await b.events(of: 9, atLeast: 1) == 1)
        #expect(try await b.events(of: 7, atLeast: 6) == 6)
        for node in [b, c, again] { node.nodes.stop() }
        _ = folder
        await server.ended()
    }

    @Test func `counts older than a minute are deleted and not read, whatever the clock of a node shows`() async throws
    {
        let (server, folder, place) = try await start()
        let tables = try place.open()
        for (number, age) in [(1, 61), (2, 50)] {
            _ = try tables.rows(
                """
                INSERT INTO told_count VALUES (900, $1, clock_timestamp() - $2::bigint * interval '1 second', $3)
                RETURNING number
                """, number, age, ToldCounts.bytes(of: [SharedCount(.wrongLoginsOfUser, UInt64(number), count: 4)]))
        }
        let a = try Node(place, "a", port: 1)
        #expect(try await a.events(of: 2, atLeast: 4) == 4)
        #expect(a.ages.allSatisfy { $0 >= .seconds(50) && $0 < .seconds(60) } && a.ages.count == 1)
        a.nodes.stop()
        #expect(try tables.rows("SELECT count(*) FROM told_count").number == 1)
        _ = folder
        await server.ended()
    }

    @Test func `counts that the database could not take come after the outage`() async throws {
        let (server, folder, place) = try await start()
        let (a, b) = (try Node(place, "a", port: 1), try Node(place, "b", port: 2))
        a.nodes.tell([SharedCount(.wrongLoginsOfSource, 7, count: 1)])
        #expect(try await b.events(of: 7, atLeast: 1) == 1)
        await server.stopped()
        a.nodes.tell([SharedCount(.wrongLoginsOfSource, 7, count: 2)])
        let answer: StoredUsers? = await withCheckedContinuation { waiter in
            a.nodes.read([], waiting: nil) { waiter.resume(returning: $0) }
        }
        #expect(answer == nil)
        server.continues()
        var total = 1
        while total < 2 {
            a.nodes.tell([SharedCount(.pushesToDevice, 1, count: 1)])
            total = try await b.events(of: 7, atLeast: 1)
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(total == 3)
        a.nodes.stop()
        b.nodes.stop()
        _ = folder
        await server.ended()
    }
}
