import Addressing
import Crypto
import Foundation
import LoopTesting
import StoreTesting
import Testing
import TestSupport

@Suite(
    .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct `Users in PostgreSQL` {
    private func bench(
        _ server: DatabaseServer, _ query: String = DatabaseAbuse.query, patience: Duration = .seconds(60),
        _ body: (SourceBench) async throws -> Void
    ) async throws {
        let url = "postgresql://sippushd@/postgres?host=\(server.folder.path)"
        try await withLoop { loop in
            let bench = try await SourceBench("database: \"\(url)\"\nquery: \"\(query)\"", on: loop, patience: patience)
            try await body(bench)
            await bench.close()
        }
    }

    @Test func `a whole life`() async throws {
        let server = try await DatabaseServer.startPostgreSQL(
            DatabaseAbuse.table + [
                "CREATE TABLE numbers (id integer, password text)", "INSERT INTO numbers VALUES (200, 'x')",
            ])
        try await bench(server) { try await DatabaseAbuse.check($0) }
        try await bench(server, "SELECT repeat('x', 10000000) AS password WHERE 'bob' = :user") { bench async throws in
            #expect(try await bench.ask("bob") == "unusable: the answer is too long")
            #expect(try await bench.ask("eve") == "unknown")
        }
        try await bench(server, "SELECT 'x' AS password FROM generate_series(1, 1000000) WHERE 'bob' = :user") {
            bench async throws in
            #expect(try await bench.ask("bob") == "unusable: the query yields several rows for one user")
        }
        // A name that cannot be a value of the column, such as bob in a column of numbers, is an unknown user.
        try await bench(server, "SELECT password FROM numbers WHERE id = :user") { bench async throws in
            #expect(try await bench.ask("200") == "password x")
            #expect(try await bench.ask("bob") == "unknown")
        }
        try await bench(server, "SELECT hash FROM subscriber WHERE username = :user") { bench async throws in
            #expect(try await bench.ask("bob") == "away: column \"hash\" does not exist")
            #expect(try await bench.ask("bob") == "away: column \"hash\" does not exist")
        }
        try await bench(server, "SELECT username AS hash FROM subscriber WHERE username = :user") {
            bench async throws in
            #expect(try await bench.ask("carol").hasPrefix("away: the query has no column password"))
        }
        try await dies(server)
    }

    @Test func `with ca-file, only a server with the right certificate gets the password`() async throws {
        let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let folder = try TemporaryFolder()
        let ca = try folder.write(certificate.certificate, to: "ca.pem")
        let other = try folder.write(SelfSignedCertificate(hosts: ["127.0.0.1"]).certificate, to: "other.pem")
        let password = try folder.write(Array("s3cret\n".utf8), to: "password")
        try await withLoop { loop in
            let places = Places(loop)
            let port = try await places.freePort().port
            let server = try await DatabaseServer.startPostgreSQL(
                DatabaseAbuse.table, at: DatabaseServer.Listener(port: port, certificate: certificate))
            func ask(_ host: String, _ authority: String) async throws -> String {
                let bench = try await SourceBench(
                    """
                    database: "postgresql://sippushd@\(host):\(port)/postgres"
                    query: "\(DatabaseAbuse.query)"
                    ca-file: "\(authority)"
                    password-file: "\(password)"
                    """, on: loop)
                let answer = try await bench.ask("bob")
                await bench.close()
                return answer
            }
            #expect(try await ask("127.0.0.1", ca).hasPrefix("MD5"))
            #expect(try await ask("127.0.0.1", other).hasPrefix("away: "))
            // The certificate of the database server has only the name 127.0.0.1.
            #expect(try await ask("localhost", ca).hasPrefix("away: "))
            await server.ended()
            await places.close()
        }
        folder.remove()
    }

    /// Expects that a source counts as away when its server hangs, and when its server has ended.
    private func dies(_ server: DatabaseServer) async throws {
        try await bench(server, patience: .milliseconds(300)) { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("MD5"))
            await server.stopped()
            #expect(try await bench.ask("bob") == "away: it does not answer in time")
            // The second query for a user opens a new connection, which hangs as well.
            #expect(try await bench.ask("bob").hasPrefix("away: "))
            server.continues()
        }
        try await bench(server) { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("MD5"))
            await server.ended()
            #expect(try await bench.ask("bob").hasPrefix("away: "))
        }
    }
}
