import Storage

extension Connection {
    /// Opens the store and migrates it to this program's schema. The store's file is created only at the start of a
    /// program, because an empty file must not replace a file that disappears later.
    static func openStore(_ path: String, mayCreate: Bool) throws(SQLiteFailure) -> Connection {
        var options = ConnectionOptions()
        options.access = mayCreate ? .readWriteCreate : .readWrite
        options.autoCheckpoint = 0
        let connection = try SQLiteFailure.wrapping { () throws(SQLError) in
            try Connection(path: path, options: options)
        }
        do throws(MigrationError) {
            try connection.migrate(StoreSchema.scripts, applicationID: StoreSchema.applicationID)
        } catch {
            throw .migration(error)
        }
        return connection
    }

    /// Opens the store with any version of its schema, without a migration.
    static func openStoreAsIs(_ path: String) throws(SQLiteFailure) -> Connection {
        var options = ConnectionOptions()
        options.access = .readWrite
        let connection = try SQLiteFailure.wrapping { () throws(SQLError) in
            try Connection(path: path, options: options)
        }
        let owner = try SQLiteFailure.wrapping { () throws(SQLError) in
            try connection.integer("PRAGMA application_id")
        }
        guard owner == Int64(StoreSchema.applicationID) else {
            throw .migration(.foreignFile(applicationID: Int32(truncatingIfNeeded: owner ?? 0)))
        }
        return connection
    }
}
