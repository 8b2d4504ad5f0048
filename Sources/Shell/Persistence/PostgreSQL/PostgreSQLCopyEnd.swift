import PostgreSQLClient

extension PostgreSQLTables {
    func checkColumns() throws {
        let found = try PostgreSQLSchema.state(in: self).number
        guard found <= PostgreSQLSchema.migrations.count else {
            throw StoreError(
                "the database has schema \(found), which a newer version wrote; copy the store with the newer version")
        }
    }

    func rows(of table: CopiedTable, after key: [CopiedValue]?, limit: Int) throws -> [[CopiedValue]] {
        let names = table.columns.map(\.postgreSQL)
        let order = Self.order(of: table)
        let condition =
            key == nil ? "" : "WHERE (\(order)) > (\(table.key.indices.map { "$\($0 + 1)" }.joined(separator: ", ")))"
        if let key { table.bind(key, of: table.key, to: connection.parameters) }
        try connection.send(
            text:
                "SELECT \(names.joined(separator: ", ")) FROM \(table.postgreSQL) \(condition) ORDER BY \(order) LIMIT \(limit)"
        )
        return try connection.result(within: patience).values { table.values(of: $0) }
    }

    /// The columns of the key in SQLite's order, which compares bytes.
    private static func order(of table: CopiedTable, _ suffix: String = "") -> String {
        table.key.map { index in
            let column = table.columns[index]
            return column.postgreSQL + (column.kind == .text ? " COLLATE \"C\"" : "") + suffix
        }.joined(separator: ", ")
    }

    func lastKey(of table: CopiedTable) throws -> [CopiedValue]? {
        let names = table.columns.map(\.postgreSQL)
        try connection.send(
            text:
                "SELECT \(names.joined(separator: ", ")) FROM \(table.postgreSQL) ORDER BY \(Self.order(of: table, " DESC")) LIMIT 1"
        )
        let last = try connection.result(within: patience).values { table.values(of: $0) }.first
        return last.map { last in table.key.map { last[$0] } }
    }

    func insert(_ rows: [[CopiedValue]], into table: CopiedTable) throws {
        let names = table.columns.map(\.postgreSQL)
        let sql = """
            INSERT INTO \(table.postgreSQL) (\(names.joined(separator: ", ")))
            \(table.numbered == nil ? "" : "OVERRIDING SYSTEM VALUE")
            VALUES (\(names.indices.map { "$\($0 + 1)" }.joined(separator: ", ")))
            """
        try transaction { () throws(PostgreSQLError) in
            for row in rows {
                table.bind(row, of: Array(table.columns.indices), to: connection.parameters)
                try connection.send(text: sql)
            }
        }
    }

    func copyNote(_ key: String) throws -> String? { try note(key) }

    func setCopyNote(_ key: String, _ value: String?) throws {
        try transaction { () throws(PostgreSQLError) in
            if let value { try writeNote(key, value) } else { try send("DELETE FROM meta WHERE key = $1", key) }
        }
    }

    func finishNumbers() throws {
        for table in CopiedTable.all {
            guard let column = table.numbered.map({ table.columns[$0].postgreSQL }) else { continue }
            // A record with a number below the last counted record would never be counted.
            let counted = table.postgreSQL == "push_record" ? Int64(try note(WakeColumns.countedNote) ?? "") ?? 0 : 0
            _ = try rows(
                """
                SELECT setval(pg_get_serial_sequence('\(table.postgreSQL)', '\(column)'),
                    greatest((SELECT coalesce(max(\(column)), 0) FROM \(table.postgreSQL)), $1) + 1, false)
                """, counted)
        }
    }
}
