import Storage
import Testing

@Suite("Schema migration")
struct MigrationTests {
    private let scripts = ["CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO b VALUES (1)"]

    @Test func `a new file gets every script, an old one the rest`() throws {
        let connection = try Connection(path: ":memory:")
        #expect(try connection.migrate(Array(scripts.prefix(1)), applicationID: 7) == 0)
        #expect(try connection.migrate(scripts, applicationID: 7) == 1)
        #expect(try connection.migrate(scripts, applicationID: 7) == 2)
        #expect(try connection.schemaVersion() == 2)
        #expect(try connection.integer("SELECT count(*) FROM b") == 1)
    }

    @Test func `a script that fails leaves the schema before it`() throws {
        let connection = try Connection(path: ":memory:")
        let error = #expect(throws: MigrationError.self) {
            try connection.migrate(["CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE a (x)"], applicationID: 7)
        }
        guard case .failed(toVersion: 2, _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try connection.schemaVersion() == 1)
        #expect(try connection.integer("SELECT count(*) FROM sqlite_schema") == 1)
    }

    @Test func `a newer or a foreign file is refused and left alone`() throws {
        let connection = try Connection(path: ":memory:")
        try connection.migrate(scripts, applicationID: 7)
        #expect(throws: MigrationError.newerSchema(found: 2, known: 1)) {
            try connection.migrate(Array(scripts.prefix(1)), applicationID: 7)
        }
        #expect(throws: MigrationError.foreignFile(applicationID: 7)) {
            try connection.migrate(scripts, applicationID: 8)
        }
        let foreign = try Connection(path: ":memory:")
        try foreign.execute("CREATE TABLE mine (x)")
        #expect(throws: MigrationError.foreignFile(applicationID: 0)) {
            try foreign.migrate(scripts, applicationID: 7)
        }
        #expect(try foreign.schemaVersion() == 0)
    }
}
