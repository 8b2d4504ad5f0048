package import Bytes
package import Calling
import Storage
package import Registration

/// The store's file, which a command opens briefly while no daemon runs.
package final class SQLiteFile {
    private let path: String
    private let lock: StoreLock
    private let connection: Connection

    /// Whether the store's file does not exist yet.
    package static func isMissing(at path: String) -> Bool { FileIdentity(path: path) == nil }

    /// Opens or creates the store's file, and migrates it to this program's schema.
    ///
    /// - Throws: an error if the file cannot be opened, or a daemon uses the store.
    package init(path: String) throws(StoreError) {
        self.path = path
        lock = try StoreLock(store: path, for: .command)
        do throws(SQLiteFailure) {
            connection = try Connection.openStore(path, mayCreate: true)
        } catch {
            lock.release()
            throw StoreError(path, error)
        }
        try lock.storeIsMade()
    }

    deinit { lock.release() }

    package func users() throws(StoreError) -> [DigestUser] {
        try asked { try $0.users() }
    }

    /// Returns the users after the given user, sorted by realm and name.
    package func users(
        after name: ByteString, in realm: ByteString, limit: Int
    ) throws(StoreError) -> [DigestUser] {
        try asked { try $0.users(after: name, in: realm, limit: limit) }
    }

    package func keys() throws(StoreError) -> [StoredKey] {
        try asked { try $0.keys() }
    }

    package func userRules(of aor: AddressOfRecord) throws(StoreError) -> StoredUserRules? {
        try asked { try $0.userRules(of: aor) }
    }

    package func mobileApps() throws(StoreError) -> [StoredMobileApp] {
        try asked { try $0.mobileApps() }
    }

    /// Writes the changes, and returns when the changes are persisted.
    package func keep(_ changes: [ServiceChange]) throws(StoreError) {
        try asked { try $0.keep(changes) }
    }

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

    private func asked<Answer>(_ body: (Connection) throws -> Answer) throws(StoreError) -> Answer {
        do { return try body(connection) } catch { throw StoreError(path, error) }
    }
}
