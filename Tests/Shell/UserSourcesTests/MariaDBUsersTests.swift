import Addressing
import Crypto
import Foundation
import LoopTesting
import StoreTesting
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
        let server = try await DatabaseServer.startMariaDB(DatabaseAbuse.table)
        try await bench(server) { bench async throws in
            try await DatabaseAbuse.check(bench)
            // MariaDB ignores case and finds bob for BOB, but the returned name shows the difference.
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

    @Test func `with ca-file, only a server with the right certificate gets the password`() async throws {
        let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let folder = try TemporaryFolder()
        let ca = try folder.write(certificate.certificate, to: "ca.pem")
        let other = try folder.write(SelfSignedCertificate(hosts: ["127.0.0.1"]).certificate, to: "other.pem")
        let password = try folder.write(Array("s3cret\n".utf8), to: "password")
        try await withLoop { loop in
            let places = Places(loop)
            let port = try await places.freePort().port
            let server = try await DatabaseServer.startMariaDB(
                DatabaseAbuse.table, at: DatabaseServer.Listener(port: port, certificate: certificate))
            func ask(_ host: String, _ authority: String) async throws -> String {
                let bench = try await SourceBench(
                    """
                    database: "mysql://sippushd@\(host):\(port)/test"
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
            // The server's certificate has only the name 127.0.0.1.
            #expect(try await ask("localhost", ca).hasPrefix("away: "))
            await server.ended()
            await places.close()
        }
        folder.remove()
    }

    /// Expects that a source counts as away when its server hangs, and when its server has ended.
    private func dies(_ server: DatabaseServer) async throws {
        try await bench(server, patience: .seconds(1)) { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("MD5"))
            await server.stopped()
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
