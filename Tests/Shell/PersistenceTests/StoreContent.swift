import PushPlanning
import Addressing
import Bytes
import PostgreSQLClient
import ProxyCore
import PushDelivery
import Registration
import Storage
import StoreTesting
import Testing
import TestSupport
import Timekeeping

@testable import Persistence

extension Trait where Self == ConditionTrait {
    /// The test is about SQLite's file, and is skipped on a PostgreSQL server.
    static var onlySQLite: Self { .enabled(if: StoreFolder.isSQLite, "the test is about SQLite's file") }
    /// The test needs a private PostgreSQL server.
    static var onlyPostgreSQL: Self { .enabled(if: !StoreFolder.isSQLite, "SIPPUSHD_TEST_POSTGRESQL names no server") }
}

extension StoreFolder {
    /// Writes one change, and returns whether the row that had to change was there.
    func apply(_ change: RowChange) throws -> Bool {
        guard let database else {
            let connection = try Connection.openStore(path, mayCreate: true)
            return try connection.transaction { () throws(SQLError) in try connection.apply(change) }
        }
        let tables = try database.open()
        try PostgreSQLSchema.migrate(tables)
        var statement: Int?
        try tables.transaction { () throws(PostgreSQLError) in statement = try tables.apply(change) }
        return statement.map { tables.connection.count(of: $0) > 0 } ?? true
    }

    /// Reads the store as the daemon does.
    func read<Answer>(_ body: (any StoreTables) throws -> Answer) throws -> Answer {
        if let database { return try body(try database.open()) }
        var options = ConnectionOptions()
        options.access = .readOnly
        return try body(try Connection(path: path, options: options))
    }

    func read() throws -> StoreContent { try read { try StoreContent($0) } }
}

/// All stored data that the engine reads when it starts.
struct StoreContent {
    let bindings: [StoredBinding]
    let entries: [CallRef: StoredBucketEntry]
    let users: [DigestUser]
    let disabledProviders: [PushProvider]
    let pausedProviders: [PushProvider]

    init(_ connection: any StoreTables) throws {
        bindings = try connection.bindings(after: nil, limit: .max)
        entries = Dictionary(uniqueKeysWithValues: try connection.bucketEntries().map { ($0.entry.callRef, $0) })
        users = try connection.users()
        disabledProviders = try connection.providers(.off)
        pausedProviders = try connection.providers(.paused)
    }
}

extension RowChange {
    static func bucket(_ aor: AddressOfRecord, _ change: BucketChange) -> RowChange {
        .engine(.bucket(StoredBucketChange(aor: aor, change: change)))
    }
}

extension StoredBinding {
    static func sample(
        _ id: UInt64, cseq: UInt32 = 1, path: [String] = [], remote: Endpoint = Endpoint(.anyV4, 5060),
        contact: ByteString = ByteString("<sip:bob@192.0.2.7;pn-provider=apns;pn-prid=0123456789abcdef>"),
        connection: UInt64 = 0, userAgent: ByteString? = nil
    ) -> StoredBinding {
        StoredBinding(
            id: DeviceID(rawValue: id), aor: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.org")),
            contact: contact, callID: ByteString("call-\(id)@host"), cseq: cseq, path: path.map { ByteString($0) },
            flow: Flow(transport: .tls, listener: 3, connection: connection, remote: remote), granted: 3600,
            freshUntil: UnixTime(milliseconds: 1_700_000_000_123), registeredAt: UnixTime(milliseconds: -5),
            isPush: true, userAgent: userAgent,
            nonce: KeptNonce(name: .max - id, count: .max - 1, stored: .max - 1))
    }
}

let alice = AddressOfRecord(user: ByteString("alice"), host: ByteString("example.org"))

extension BucketEntry {
    static func sample(_ callRef: UInt64, devices: [DeviceID] = [1]) -> BucketEntry {
        BucketEntry(
            callRef: CallRef(rawValue: callRef), caller: ByteString("100"), date: UnixTime(seconds: 1_700_000_000),
            broughtBy: Caller(hash: 77, isTrusted: false), devices: devices, isOver: true)
    }
}

extension StoreResult {
    /// The number of a ticket that a test has made.
    var number: UInt64? { if case .service(let number)? = ticket { number } else { nil } }
}
