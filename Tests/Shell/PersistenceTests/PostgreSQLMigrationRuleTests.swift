import Testing

@testable import Persistence

/// Checks the statements of migrations that older programs must bear, by the rule at ``PostgreSQLSchema``.
@Suite("Migrations of PostgreSQL that older programs bear")
struct PostgreSQLMigrationRuleTests {
    /// The statements of a step that an older program does not bear.
    private func forbidden(_ statements: [String]) -> [String] {
        var created: Set<Substring> = []
        return statements.filter { text in
            let lines = text.split(separator: "\n").map { $0.prefix { $0 != "-" } }
            let statement = lines.joined(separator: " ").split(separator: " ").joined(separator: " ")
            if let table = statement.prefixMatch(of: #/CREATE (UNLOGGED )?TABLE (\w+) /#) {
                created.insert(table.2)
                return false
            }
            if statement.wholeMatch(of: #/CREATE SEQUENCE \w+/#) != nil { return false }
            if let index = statement.prefixMatch(of: #/CREATE (UNIQUE )?INDEX \w+ ON (\w+) /#) {
                return !created.contains(index.2)
            }
            guard let addition = statement.wholeMatch(of: #/ALTER TABLE \w+ (ADD COLUMN .*)/#) else { return true }
            let allowed = #/ADD COLUMN \w+ (text|bytea|bigint|timestamptz)( (NOT NULL )?DEFAULT ('[^']*'|\d+))?/#
            return !addition.1.split(separator: ", ").allSatisfy { $0.wholeMatch(of: allowed) != nil }
        }
    }

    @Test func `each step that keeps an older schema creates tables and adds columns only`() {
        for (index, step) in PostgreSQLSchema.migrations.enumerated() {
            #expect(step.oldest >= 1 && step.oldest <= index + 1)
            guard step.oldest <= index else { continue }
            #expect(forbidden(step.statements).isEmpty)
        }
        let oldest = PostgreSQLSchema.migrations.map(\.oldest)
        #expect(oldest == oldest.sorted())
    }

    @Test(arguments: [
        "ALTER TABLE binding DROP COLUMN nonce", "ALTER TABLE binding RENAME COLUMN nonce TO n",
        "ALTER TABLE binding ADD COLUMN n bigint NOT NULL", "ALTER TABLE binding ADD COLUMN n text UNIQUE",
        "ALTER TABLE binding ADD COLUMN n bigint DEFAULT nextval('s')", "ALTER TABLE node ALTER COLUMN run TYPE text",
        "ALTER TABLE binding ADD COLUMN n bigint, DROP COLUMN nonce", "CREATE INDEX i ON binding (nonce)",
        "UPDATE binding SET nonce = 0", "DROP TABLE node", "ALTER TABLE binding ADD CHECK (nonce > 0)",
    ]) func `other statements are found`(statement: String) {
        #expect(forbidden([statement]) == [statement])
    }

    @Test func `tables, their indexes and columns with constant defaults are allowed`() {
        #expect(
            forbidden([
                "CREATE TABLE later (id bigint PRIMARY KEY, name text NOT NULL)", "CREATE INDEX i ON later (name)",
                "ALTER TABLE binding ADD COLUMN a text, ADD COLUMN b bigint NOT NULL DEFAULT 7", "CREATE SEQUENCE s",
            ]).isEmpty)
    }
}
