import Storage

/// The store's SQLite file, as commands see it.
package enum SQLiteFile {
    /// Whether the store's file does not exist yet.
    package static func isMissing(at path: String) -> Bool { FileIdentity(path: path) == nil }

    /// Copies the store's file as a running daemon does, with any version of the schema.
    ///
    /// - Returns: the size of the database's copy in bytes.
    package static func backUp(_ path: String, to file: String) throws(StoreError) -> Int {
        let lock = try StoreLock(store: path, for: .command)
        defer { lock.release() }
        do {
            return try Connection.openStoreAsIs(path).backUp(to: file, database: path)
        } catch {
            throw StoreError(path, error)
        }
    }
}

extension CommandStore {
    /// Opens or creates the store's file, and migrates it to this program's schema.
    ///
    /// - Throws: an error if the file cannot be opened, or a daemon uses the store.
    package convenience init(path: String) throws(StoreError) {
        let lock = try StoreLock(store: path, for: .command)
        let connection: Connection
        do throws(SQLiteFailure) {
            connection = try Connection.openStore(path, mayCreate: true)
        } catch {
            lock.release()
            throw StoreError(path, error)
        }
        try lock.storeIsMade()
        self.init(connection, at: path, release: lock.release)
    }
}
