extension Connection {
    /// The version of the database's schema; 0 for a new file.
    package func schemaVersion() throws(SQLError) -> Int { Int(try integer("PRAGMA user_version") ?? 0) }

    /// Migrates the database to the program's schema.
    ///
    /// - Parameters:
    ///   - scripts: the change from each schema version to the next, from version 0 on; a released script must never
    ///     change.
    ///   - applicationID: the number by which the program recognises its own database files.
    /// - Returns: the version of the schema before the migration.
    /// - Throws: an error if a change fails, or if a newer version or another program created the file, which then
    ///   stays unchanged.
    @discardableResult
    package func migrate(_ scripts: [String], applicationID: Int32) throws(MigrationError) -> Int {
        let found = try checkedVersion(atMost: scripts.count, applicationID: applicationID)
        for (index, script) in scripts.enumerated().dropFirst(found) {
            try asMigration(toVersion: index + 1) { () throws(SQLError) in
                try transaction { () throws(SQLError) in
                    try execute(script)
                    try execute("PRAGMA application_id = \(applicationID); PRAGMA user_version = \(index + 1)")
                }
            }
        }
        return found
    }

    private func checkedVersion(atMost known: Int, applicationID: Int32) throws(MigrationError) -> Int {
        let (found, owner, tables) = try asMigration(toVersion: 0) { () throws(SQLError) in
            (
                try schemaVersion(), try integer("PRAGMA application_id") ?? 0,
                try integer("SELECT count(*) FROM sqlite_schema") ?? 0
            )
        }
        guard owner == Int64(applicationID) || (owner == 0 && found == 0 && tables == 0) else {
            throw .foreignFile(applicationID: Int32(truncatingIfNeeded: owner))
        }
        guard found <= known else { throw .newerSchema(found: found, known: known) }
        return found
    }

    private func asMigration<Result>(
        toVersion version: Int, _ body: () throws(SQLError) -> Result
    ) throws(MigrationError) -> Result {
        do {
            return try body()
        } catch {
            throw .failed(toVersion: version, error)
        }
    }
}
