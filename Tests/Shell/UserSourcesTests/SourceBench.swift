import Bytes
import LoopTesting
import Reactor
import Registration
import Settings
import Testing
import TestSupport

@testable import UserSources

/// A source of users on a loop, with its answers as text.
struct SourceBench {
    let loop: EventLoop
    let sources: UserSources

    /// - Parameters:
    ///   - yaml: the settings of the source.
    ///   - loop: a running loop.
    ///   - patience: the time limit of a connection and of a query.
    /// - Throws: an error if the settings are wrong.
    init(_ yaml: String, on loop: EventLoop, patience: Duration = .seconds(60)) async throws {
        self.loop = loop
        let text = "order: [it]\nsources:\n    it:\n" + yaml.split(separator: "\n").map { "        \($0)\n" }.joined()
        let settings = try UserSettings(yaml: Array(text.utf8), file: "test")
        sources = try await Bench(loop).run { _ in
            try UserSources(settings, on: loop, times: DatabaseTimes(connect: patience, query: patience))
        }
    }

    /// Asks the source for a user, and returns the secrets or the fault as text.
    func ask(_ name: String, domain: String = "example.net") async throws -> String {
        let answers = Mailbox<UserAnswer>()
        let sources = sources
        let question = UserQuestion(
            ticket: UserTicket(1), source: 0, name: ByteString(name), domain: ByteString(domain),
            realm: ByteString(domain))
        loop.post { sources.ask(question) { answers.put($0) } }
        return Self.words(try await answers.next())
    }

    /// Asks the source for several users at the same time.
    func ask(all names: [String]) async throws -> [String] {
        try await withThrowingTaskGroup(of: String.self) { group in
            for name in names { group.addTask { try await ask(name) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    func close() async {
        let sources = sources
        await Bench(loop).run { _ in sources.close() }
    }

    static func words(_ answer: UserAnswer) -> String {
        switch answer {
        case .found(let secrets):
            let hashes = secrets.ha1.sorted { $0.key.rawValue < $1.key.rawValue }.map {
                "\($0.key.rawValue) \($0.value)"
            }
            let others = [
                secrets.password.map { "password \($0)" }, secrets.realm.map { "realm \($0)" },
                secrets.name.map { "name \($0)" },
            ]
            return (hashes + others.compactMap(\.self)).joined(separator: ", ")
        case .unknown: return "unknown"
        case .unusable(let fault): return "unusable: \(fault.sentence)"
        case .away(let fault): return "away: \(fault.sentence)"
        }
    }
}

/// Questions with odd names and rows, for a table `subscriber` with bob, alice, nobody (without secrets) and two rows
/// for twin.
enum DatabaseAbuse {
    static let query = "SELECT username, ha1, password FROM subscriber WHERE username = :user"

    /// The SQL statements that create the table `subscriber` and its rows.
    static let table = [
        "CREATE TABLE subscriber (username VARCHAR(64), domain VARCHAR(64), ha1 VARCHAR(128), password VARCHAR(64))",
        "INSERT INTO subscriber VALUES ('bob', 'example.net', '900150983cd24fb0d6963f7d28e17f72', NULL)",
        "INSERT INTO subscriber VALUES ('alice', 'example.net', '', 's3cret')",
        "INSERT INTO subscriber VALUES ('nobody', 'example.net', NULL, NULL)",
        "INSERT INTO subscriber VALUES ('twin', 'example.net', 'a', NULL)",
        "INSERT INTO subscriber VALUES ('twin', 'example.org', 'b', NULL)",
    ]

    static func check(_ bench: SourceBench) async throws {
        #expect(try await bench.ask("bob") == "MD5 900150983cd24fb0d6963f7d28e17f72, name bob")
        #expect(try await bench.ask("alice") == "MD5 , password s3cret, name alice")
        #expect(try await bench.ask("carol") == "unknown")
        #expect(try await bench.ask("nobody") == "name nobody")
        #expect(try await bench.ask("twin") == "unusable: the query yields several rows for one user")
        for name in ["'; DROP TABLE subscriber; --", "\\'; DROP TABLE subscriber", "x' OR '1'='1", "%", "🙂", "$1"] {
            #expect(try await bench.ask(name) == "unknown")
        }
        #expect(try await bench.ask("bob") == "MD5 900150983cd24fb0d6963f7d28e17f72, name bob")
        let many = try await bench.ask(all: ["bob", "bob", "alice", "carol"])
        #expect(Set(many).count == 3)
    }
}
