package import Bytes
package import Calling
package import Registration

/// The store, which a command opens briefly while no daemon runs.
package final class CommandStore {
    private let place: String
    private let tables: any StoreTables
    /// Releases the store's lock.
    private let release: () -> Void

    init(_ tables: any StoreTables, at place: String, release: @escaping () -> Void) {
        (self.tables, self.place, self.release) = (tables, place, release)
    }

    deinit { release() }

    package func users() throws(StoreError) -> [DigestUser] { try asked { try $0.users() } }

    /// Returns the users after the given user, sorted by realm and name.
    package func users(
        after name: ByteString, in realm: ByteString, limit: Int
    ) throws(StoreError) -> [DigestUser] {
        try asked { try $0.users(after: name, in: realm, limit: limit) }
    }

    package func keys() throws(StoreError) -> [StoredKey] { try asked { try $0.keys() } }

    package func userRules(of aor: AddressOfRecord) throws(StoreError) -> StoredUserRules? {
        try asked { try $0.userRules(of: aor) }
    }

    package func mobileApps() throws(StoreError) -> [StoredMobileApp] { try asked { try $0.mobileApps() } }

    /// Writes the changes, and returns when the changes are persisted.
    package func keep(_ changes: [ServiceChange]) throws(StoreError) { try asked { try $0.keep(changes) } }

    /// The tables as one end of a copy.
    var copyEnd: any CopyEnd { tables }

    private func asked<Answer>(_ body: (any StoreTables) throws -> Answer) throws(StoreError) -> Answer {
        do { return try body(tables) } catch { throw StoreError(place, error) }
    }
}
