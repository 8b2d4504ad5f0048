import Storage

extension Connection {
    /// A program opens no SQLite file with a newer schema than its own.
    func checkColumns() {}

    func rows(of table: CopiedTable, after key: [CopiedValue]?, limit: Int) throws -> [[CopiedValue]] {
        let names = table.columns.map(\.sqlite)
        let order = table.key.map { names[$0] }.joined(separator: ", ")
        let condition =
            key == nil ? "" : "WHERE (\(order)) > (\(table.key.map { _ in "?" }.joined(separator: ", ")))"
        let rows = try statement(
            "SELECT \(names.joined(separator: ", ")) FROM \(table.sqlite) \(condition) ORDER BY \(order) LIMIT \(limit)"
        )
        if let key { table.bind(key, of: table.key, to: rows) }
        return try values(of: rows) { table.values(of: $0) }
    }

    func lastKey(of table: CopiedTable) throws -> [CopiedValue]? {
        let names = table.columns.map(\.sqlite)
        let order = table.key.map { "\(names[$0]) DESC" }.joined(separator: ", ")
        let rows = try statement(
            "SELECT \(names.joined(separator: ", ")) FROM \(table.sqlite) ORDER BY \(order) LIMIT 1")
        let last = try values(of: rows) { table.values(of: $0) }.first
        return last.map { last in table.key.map { last[$0] } }
    }

    func insert(_ rows: [[CopiedValue]], into table: CopiedTable) throws {
        let names = table.columns.map(\.sqlite)
        let sql = """
            INSERT INTO \(table.sqlite) (\(names.joined(separator: ", ")))
            VALUES (\(names.map { _ in "?" }.joined(separator: ", ")))
            """
        try transaction { () throws(SQLError) in
            for row in rows {
                let statement = try statement(sql)
                table.bind(row, of: Array(table.columns.indices), to: statement)
                try statement.run()
            }
        }
    }

    func copyNote(_ key: String) throws -> String? { try note(key) }

    func setCopyNote(_ key: String, _ value: String?) throws {
        if let value { try writeNote(key, value) } else { try run("DELETE FROM meta WHERE key = ?", key) }
    }

    // SQLite numbers new rows above the highest number.
    func finishNumbers() {}
}
