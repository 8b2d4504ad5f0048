import Bytes
import LoopTesting
import Reactor
import Registration
import Settings
import Testing
import TestSupport

@testable import UserSources

/// Sources of users on a loop, and what they answer.
struct SourceBench {
    let loop: EventLoop
    let sources: UserSources

    /// - Parameters:
    ///   - yaml: the settings of the only source.
    ///   - loop: a running loop.
    ///   - patience: the time that a database gets for an answer.
    /// - Throws: if the settings are wrong.
    init(_ yaml: String, on loop: EventLoop, patience: Duration = .seconds(60)) async throws {
        self.loop = loop
        let text = "order: [it]\nsources:\n    it:\n" + yaml.split(separator: "\n").map { "        \($0)\n" }.joined()
        let settings = try UserSettings(yaml: Array(text.utf8), file: "test")
        sources = try await Bench(loop).run { _ in
            try UserSources(settings, on: loop, times: DatabaseTimes(connect: patience, query: patience))
        }
    }

    /// The answer of the source about a user in words: the secrets, or the fault.
    func ask(_ name: String, domain: String = "example.net") async throws -> String {
        let answers = Mailbox<UserAnswer>()
        let sources = sources
        let question = UserQuestion(
            ticket: UserTicket(1), source: 0, name: ByteString(name), domain: ByteString(domain),
            realm: ByteString(domain))
        loop.post { sources.ask(question) { answers.put($0) } }
        return Self.words(try await answers.next())
    }

    /// Asks for several users at once.
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

/// Questions that every database must survive, for a table `subscriber` that has bob, nobody (without secrets), and two
/// rows of twin.
enum DatabaseAbuse {
    static let query = "SELECT username, ha1, password FROM subscriber WHERE username = :user"

    /// The statements that make the table.
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
