import Addressing
import Bytes
import Foundation
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Storage
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// A folder of its own with the path of a store in it; removed with the object, or earlier.
final class StoreFolder: Sendable {
    private let home: TemporaryFolder
    var folder: String { home.path }
    var path: String { home.file("store.db") }

    init() throws { home = try TemporaryFolder() }

    func remove() { home.remove() }

    func read() throws -> StoreContent {
        var reader = try StoreReader(path: path, mayMigrate: false)
        return try StoreContent(&reader)
    }
}

extension StoreFolder {
    /// Opens the file as the daemon does, and reads all of it.
    func checkIntegrity() throws {
        _ = try StoreReader(path: path, mayMigrate: true)
        #expect(try Connection(path: path).integrityProblems().isEmpty)
    }

    /// How many rows each table has; also while somebody writes.
    func rowCounts() throws -> [String: Int64] {
        var options = ConnectionOptions()
        options.access = .readOnly
        let connection = try Connection(path: path, options: options)
        let tables = try connection.statement("SELECT name FROM sqlite_master WHERE type = 'table'")
        var names: [String] = []
        while try tables.step() { names.append(tables.text(0)) }
        var counts: [String: Int64] = [:]
        for name in names { counts[name] = try connection.integer("SELECT count(*) FROM \"\(name)\"") }
        return counts
    }
}

/// All that a store holds.
struct StoreContent {
    var bindings: [StoredBinding] = []
    var entries: [CallRef: (aor: AddressOfRecord, entry: BucketEntry)] = [:]
    var users: [DigestUser] = []
    var switches: [PushProvider: Bool] = [:]
    var notes: [String: String] = [:]
    var unreadableRows = 0

    init(_ reader: inout StoreReader) throws {
        var bindings: [StoredBinding] = []
        try reader.forEachBinding { bindings.append($0) }
        var entries: [CallRef: (AddressOfRecord, BucketEntry)] = [:]
        try reader.forEachBucketEntry { entries[$1.callRef] = ($0, $1) }
        var users: [DigestUser] = []
        try reader.forEachUser { users.append($0) }
        self.bindings = bindings
        self.entries = entries
        self.users = users
        switches = try reader.providerSwitches()
        notes = try reader.notes()
        unreadableRows = reader.unreadableRows
    }
}

/// A writer whose results can be awaited.
final class ObservedWriter: Sendable {
    let writer: StoreWriter
    let logSink = MemoryLogSink()
    private let results: AsyncStream<StoreResult>

    init(_ path: String, _ settings: StoreWriterSettings = StoreWriterSettings()) throws {
        let (stream, continuation) = AsyncStream.makeStream(of: StoreResult.self)
        results = stream
        let log = Log(level: .debug, sink: logSink) { UnixTime(milliseconds: 0) }
        writer = try StoreWriter(path: path, settings: settings, log: log) { results in
            for result in results { continuation.yield(result) }
        }
    }

    /// Submits and waits for the result; `nil` when the writer refuses.
    func write(_ changes: [StoreChange]) async -> Bool? { await submit(changes)?.isStored }

    /// The same with all that the writer says.
    func submit(_ changes: [StoreChange]) async -> StoreResult? {
        let ticket = StoreTicket.service(.random(in: .min ... .max))
        guard writer.commit(changes, for: ticket) else { return nil }
        for await result in results where result.ticket == ticket { return result }
        return nil
    }

    func results(_ count: Int) async -> [StoreResult] {
        var received: [StoreResult] = []
        for await result in results {
            received.append(result)
            if received.count == count { break }
        }
        return received
    }
}

extension StoredBinding {
    static func sample(
        _ id: UInt64, cseq: UInt32 = 1, path: [String] = [], remote: Endpoint = Endpoint(.anyV4, 5060),
        contact: ByteString = ByteString("<sip:bob@192.0.2.7;pn-provider=apns;pn-prid=0123456789abcdef>"),
        connection: UInt64 = 0
    ) -> StoredBinding {
        StoredBinding(
            id: DeviceID(rawValue: id), aor: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.org")),
            contact: contact, callID: ByteString("call-\(id)@host"), cseq: cseq, path: path.map { ByteString($0) },
            flow: Flow(transport: .tls, listener: 3, connection: connection, remote: remote), granted: 3600,
            freshUntil: UnixTime(milliseconds: 1_700_000_000_123), registeredAt: UnixTime(milliseconds: -5),
            isPush: true)
    }
}

let alice = AddressOfRecord(user: ByteString("alice"), host: ByteString("example.org"))

extension BucketEntry {
    static func sample(_ callRef: UInt64, devices: [UInt64] = [1]) -> BucketEntry {
        BucketEntry(
            callRef: CallRef(rawValue: callRef), caller: ByteString("100"), date: UnixTime(seconds: 1_700_000_000),
            devices: devices, isOver: true)
    }
}

extension StoreResult {
    /// Of the tests' own tickets.
    var number: UInt64? { if case .service(let number)? = ticket { number } else { nil } }
}
