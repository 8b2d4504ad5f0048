import Foundation
import LoopTesting
import Testing
import TestSupport

@Suite(
    .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.mariaDB != nil, "MariaDB is not installed (Debian: mariadb-server-core)"))
struct `Users in MariaDB` {
    private func bench(
        _ server: DatabaseServer, _ query: String = DatabaseAbuse.query, patience: Duration = .seconds(60),
        _ body: (SourceBench) async throws -> Void
    ) async throws {
        let url = "mysql://sippushd@/test?socket=\(server.folder.path)/s"
        try await withLoop { loop in
            let bench = try await SourceBench("database: \"\(url)\"\nquery: \"\(query)\"", on: loop, patience: patience)
            try await body(bench)
            await bench.close()
        }
    }

    @Test func `a whole life`() async throws {
        let server = try DatabaseServer.startMariaDB(DatabaseAbuse.table)
        try await bench(server) { bench async throws in
            try await DatabaseAbuse.check(bench)
            // MariaDB compares without case. The name tells that it is another one.
            #expect(try await bench.ask("BOB") == "MD5 900150983cd24fb0d6963f7d28e17f72, name bob")
        }
        try await bench(server, "SELECT repeat('x', 10000000) AS password FROM DUAL WHERE 'bob' = :user") {
            bench async throws in
            #expect(try await bench.ask("bob") != "password")
            #expect(try await bench.ask("eve") == "unknown")
        }
        try await bench(server, "SELECT repeat('x', 5000) AS password FROM DUAL WHERE 'bob' = :user") {
            bench async throws in
            #expect(try await bench.ask("bob") == "unusable: the answer is too long")
        }
        try await bench(server, "SELECT hash FROM subscriber WHERE username = :user") { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("away: Unknown column 'hash'"))
            #expect(try await bench.ask("bob").hasPrefix("away: Unknown column 'hash'"))
        }
        try await bench(server, "SELECT username AS hash FROM subscriber WHERE username = :user") {
            bench async throws in
            #expect(try await bench.ask("carol").hasPrefix("away: the query has no column password"))
        }
        try await dies(server)
    }

    /// A server that hangs answers later; one that has ended is away.
    private func dies(_ server: DatabaseServer) async throws {
        try await bench(server, patience: .seconds(1)) { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("MD5"))
            server.signal(SIGSTOP)
            #expect(try await bench.ask("bob").hasPrefix("away: "))
            server.signal(SIGCONT)
        }
        try await bench(server) { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("MD5"))
            server.end()
            #expect(try await bench.ask("bob").hasPrefix("away: "))
        }
    }
}
