import LoopTesting
import Storage
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(2))) struct `Users in SQLite` {
    private func file(in folder: TemporaryFolder, _ more: String = "") throws -> String {
        let path = folder.file("users.db")
        let connection = try Connection(path: path)
        for statement in DatabaseAbuse.table { try connection.execute(statement) }
        if !more.isEmpty { try connection.execute(more) }
        return path
    }

    private func bench(
        _ query: String, in folder: TemporaryFolder, more: String = "",
        _ body: (SourceBench) async throws -> Void
    ) async throws {
        let path = try file(in: folder, more)
        try await withLoop { loop in
            let bench = try await SourceBench("database: \"sqlite:\(path)\"\nquery: \"\(query)\"", on: loop)
            try await body(bench)
            await bench.close()
        }
        folder.remove()
    }

    @Test func `users are found, and no name does harm`() async throws {
        try await bench(DatabaseAbuse.query, in: TemporaryFolder()) { try await DatabaseAbuse.check($0) }
    }

    @Test func `the ready query for Kamailio looks at the domain`() async throws {
        try await bench("kamailio-subscriber", in: TemporaryFolder()) { bench async throws in
            #expect(
                try await bench.ask("bob") == "MD5 900150983cd24fb0d6963f7d28e17f72, realm example.net, name bob")
            #expect(try await bench.ask("bob", domain: "example.org") == "unknown")
            #expect(try await bench.ask("twin", domain: "example.org") == "MD5 b, realm example.org, name twin")
        }
    }

    @Test func `the ready query for Asterisk takes the secret that the row uses`() async throws {
        let table = """
            CREATE TABLE ps_auths (id, auth_type, md5_cred, password, realm, username);
            INSERT INTO ps_auths VALUES ('a1', 'md5', 'abc', 'old', 'asterisk', 'bob');
            INSERT INTO ps_auths VALUES ('a2', 'userpass', 'old', 's3cret', NULL, 'alice');
            INSERT INTO ps_auths VALUES ('a3', 'google_oauth', 'x', 'y', NULL, 'carol');
            """
        try await bench("asterisk-ps-auths", in: TemporaryFolder(), more: table) { bench async throws in
            #expect(try await bench.ask("bob") == "MD5 abc, realm asterisk, name bob")
            #expect(try await bench.ask("alice") == "password s3cret, name alice")
            #expect(try await bench.ask("carol") == "name carol")
        }
    }

    @Test func `the ready queries for FreePBX and FusionPBX`() async throws {
        let tables = """
            CREATE TABLE sip (id, keyword, data, flags);
            INSERT INTO sip VALUES ('200', 'secret', 's3cret', 2), ('200', 'context', 'x', 3);
            CREATE TABLE v_domains (domain_uuid, domain_name);
            CREATE TABLE v_extensions (domain_uuid, extension, password, enabled);
            INSERT INTO v_domains VALUES ('d1', 'example.net'), ('d2', 'example.org');
            INSERT INTO v_extensions VALUES ('d1', '200', 'one', 'true'), ('d2', '200', 'two', 'true'),
                ('d1', '201', 'off', 'false');
            """
        try await bench("freepbx-sip", in: TemporaryFolder(), more: tables) { bench async throws in
            #expect(try await bench.ask("200") == "password s3cret, name 200")
        }
        try await bench("fusionpbx-extensions", in: TemporaryFolder(), more: tables) { bench async throws in
            #expect(try await bench.ask("200") == "password one, name 200")
            #expect(try await bench.ask("200", domain: "example.org") == "password two, name 200")
            #expect(try await bench.ask("201") == "unknown")
        }
    }

    @Test func `a query without the right columns names those that it has`() async throws {
        try await bench("SELECT username, ha1 AS hash FROM subscriber WHERE username = :user", in: TemporaryFolder()) {
            bench async throws in
            let wanted =
                "away: the query has no column password, ha1, ha1_sha256 or ha1_sha512_256; its columns: username, hash"
            #expect(try await bench.ask("bob") == wanted)
            #expect(try await bench.ask("carol") == wanted)
        }
        try await bench("SELECT ha1 FROM missing WHERE username = :user", in: TemporaryFolder()) { bench async throws in
            #expect(try await bench.ask("bob").hasPrefix("away: no such table: missing"))
        }
    }

    @Test func `a value of ten megabytes is not taken`() async throws {
        try await bench("SELECT hex(zeroblob(5000000)) AS ha1 WHERE 'bob' = :user", in: TemporaryFolder()) {
            bench async throws in
            #expect(try await bench.ask("bob") == "unusable: the answer is too long")
        }
    }

    @Test func `a file that is missing or no database is away, and counts when it comes`() async throws {
        let folder = try TemporaryFolder()
        try await withLoop { loop in
            let path = folder.file("users.db")
            let bench = try await SourceBench(
                "database: \"sqlite:\(path)\"\nquery: \"\(DatabaseAbuse.query)\"", on: loop)
            #expect(try await bench.ask("bob").hasPrefix("away: "))
            _ = try file(in: folder)
            #expect(try await bench.ask("bob").hasPrefix("MD5"))
            await bench.close()
            try folder.write(Array("this is no database, and long enough to be read as one".utf8), to: "other.db")
            let other = try await SourceBench(
                "database: \"sqlite:\(folder.file("other.db"))\"\nquery: \"\(DatabaseAbuse.query)\"", on: loop)
            #expect(try await other.ask("bob").hasPrefix("away: "))
            await other.close()
        }
        folder.remove()
    }

    @Test func `the query changes nothing`() async throws {
        try await bench(
            "INSERT INTO subscriber (username) VALUES (:user) RETURNING username, ha1", in: TemporaryFolder()
        ) { bench async throws in
            #expect(try await bench.ask("mallory").hasPrefix("away: "))
        }
    }
}
