package import Addressing
package import PushDelivery
package import Registration
import Storage
package import Timekeeping

/// Reads the store at start, before the writer runs, and for commands that look at it while the daemon does.
package struct StoreReader: ~Copyable {
    private let connection: Connection
    /// Rows that no version of this program has written; they stay where they are.
    package private(set) var unreadableRows = 0

    /// Opens the store at `path`.
    ///
    /// - Parameters:
    ///   - path: the database file.
    ///   - mayMigrate: make the file when there is none and bring it to this program's schema; only the daemon does.
    /// - Throws: also for a file of another program or of a newer version.
    package init(path: String, mayMigrate: Bool) throws(StoreError) {
        connection = try Self.open(path, mayMigrate: mayMigrate)
    }

    private static func open(_ path: String, mayMigrate: Bool) throws(StoreError) -> Connection {
        var options = ConnectionOptions()
        options.access = mayMigrate ? .readWriteCreate : .readOnly
        let connection = try StoreError.wrapping { () throws(SQLError) in
            try Connection(path: path, options: options)
        }
        try StoreSchema.prepare(connection, mayMigrate: mayMigrate)
        return connection
    }

    /// All bindings in the order of their numbers.
    package mutating func forEachBinding(_ body: (StoredBinding) -> Void) throws(StoreError) {
        try forEachRow(of: "SELECT * FROM binding ORDER BY id") { row in
            guard let binding = row.storedBinding else { return false }
            body(binding)
            return true
        }
    }

    package mutating func forEachBucketEntry(_ body: (AddressOfRecord, BucketEntry) -> Void) throws(StoreError) {
        try forEachRow(of: "SELECT * FROM bucket_entry") { row in
            guard let (aor, entry) = row.storedBucketEntry else { return false }
            body(aor, entry)
            return true
        }
    }

    package mutating func forEachUser(_ body: (DigestUser) -> Void) throws(StoreError) {
        try forEachRow(of: "SELECT * FROM user") { row in
            body(row.storedUser)
            return true
        }
    }

    package mutating func forEachKey(_ body: (APIKey) -> Void) throws(StoreError) {
        try forEachRow(of: "SELECT * FROM api_key") { row in
            guard let key = row.storedKey else { return false }
            body(key)
            return true
        }
    }

    package mutating func forEachApp(_ body: (StoredMobileApp) -> Void) throws(StoreError) {
        try forEachRow(of: "SELECT * FROM mobile_app") { row in
            guard let app = row.storedApp else { return false }
            body(app)
            return true
        }
    }

    /// Registrations and clean-ups of devices that are not done, in their order.
    package mutating func forEachOpenDeviceRequest(_ body: (DeviceRequest) -> Void) throws(StoreError) {
        try forEachRow(of: "SELECT * FROM device_request WHERE finished_at IS NULL ORDER BY number") { row in
            guard let request = row.storedDeviceRequest else { return false }
            body(request)
            return true
        }
    }

    /// The providers that somebody has switched, and how.
    package mutating func providerSwitches() throws(StoreError) -> [PushProvider: Bool] {
        var switches: [PushProvider: Bool] = [:]
        try forEachRow(of: "SELECT name, enabled FROM provider_switch") { row in
            guard let provider = PushProvider(rawValue: row.text(0)) else { return false }
            switches[provider] = row.integer(1) != 0
            return true
        }
        return switches
    }

    /// Accepted pushes that were not read, those of each device in the order in which they were asked for. An index alone
    /// is read, and no more than the badges can hold.
    package mutating func forEachUnreadPush(
        since date: UnixTime, _ body: (PushCode, UnreadPushes.Matter, DeviceID, UnixTime) -> Void
    ) throws(StoreError) {
        let sql = """
            SELECT device, requested_at, code, kind, call_ref FROM push_record INDEXED BY push_record_unread
            WHERE read IS NULL AND requested_at >= \(date.milliseconds)
            ORDER BY device, requested_at LIMIT \(Self.unreadLimit)
            """
        try forEachRow(of: sql) { row in
            guard let code = row.storedCode(2) else { return false }
            body(
                code, row.storedMatter(kind: 3, callRef: 4), DeviceID(rawValue: UInt64(bitPattern: row.integer(0))),
                UnixTime(milliseconds: row.integer(1)))
            return true
        }
    }

    private static let unreadLimit = 2_000_000

    /// The secrets of that name, the newest first.
    package mutating func secrets(named name: String) throws(StoreError) -> [StoredSecret] {
        var secrets: [StoredSecret] = []
        try forEachRow(of: "SELECT name, created_at, value FROM secret ORDER BY created_at DESC") { row in
            let found = StoredSecret(
                name: row.text(0), createdAt: UnixTime(milliseconds: row.integer(1)), value: row.bytes(2))
            if found.name == name { secrets.append(found) }
            return true
        }
        return secrets
    }

    /// Those that have not ended by then.
    package mutating func forEachDialogRenewal(
        after date: UnixTime, _ body: (StoredDialogRenewal) -> Void
    ) throws(StoreError) {
        let sql = "SELECT digest, until FROM dialog_renewal WHERE until >= \(date.milliseconds)"
        try forEachRow(of: sql) { row in
            body(StoredDialogRenewal(digest: row.byteString(0), until: UnixTime(milliseconds: row.integer(1))))
            return true
        }
    }

    package mutating func notes() throws(StoreError) -> [String: String] {
        var notes: [String: String] = [:]
        try forEachRow(of: "SELECT key, value FROM meta") { row in
            notes[row.text(0)] = row.text(1)
            return true
        }
        return notes
    }

    private mutating func forEachRow(of sql: String, _ body: (Statement) -> Bool) throws(StoreError) {
        unreadableRows += try StoreError.wrapping { () throws(SQLError) in
            var unreadable = 0
            let rows = try connection.statement(sql)
            while try rows.step() {
                if !body(rows) { unreadable += 1 }
            }
            return unreadable
        }
    }
}
