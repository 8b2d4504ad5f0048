extension CommandStore {
    /// Opens the store's database, and migrates it to this program's schema.
    ///
    /// - Throws: an error if the database cannot be used, or a daemon uses the store.
    package convenience init(postgreSQL address: PostgreSQLPlace) throws(StoreError) {
        do throws(PostgreSQLFailure) {
            let tables = try address.open()
            if address.isExclusive {
                var lock = PostgreSQLLock(of: nil)
                try lock.take(on: tables, patience: address.times.connect)
            }
            try PostgreSQLSchema.migrate(tables)
            // The server releases the lock when the connection ends.
            self.init(tables, at: address.name) {}
        } catch {
            throw StoreError(address.name, error, isInUse: error.isInUse)
        }
    }
}
