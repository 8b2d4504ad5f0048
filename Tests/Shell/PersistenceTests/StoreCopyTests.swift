import Addressing
import Bytes
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Storage
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite(
    "Copies of the store", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct StoreCopyTests {
    private let date = UnixTime(seconds: 1_800_000_000)

    /// Fills a store with rows in each table.
    private func fill(_ folder: StoreFolder, bindings: UInt64) async throws {
        let writer = try ObservedWriter(folder)
        let user = DigestUser(
            name: ByteString("bob"), realm: ByteString("r"), ha1: [.md5: ByteString("aa"), .sha256: ByteString("bb")])
        let request = DeviceRequest(
            id: RequestID.make(), kind: .registration, app: "a", user: "bob", platform: .apple, token: "t",
            isTracked: true, callback: nil, acceptedAt: date)
        let dead = DeadToken(
            token: PushToken(provider: .fcm, param: .empty, prid: ByteString("1")), since: date, recordedAt: date,
            source: .provider, domain: ByteString("example.net"))
        var refused = TimelineRecord.sample(9, at: date)
        refused.refused(.foreignDomain, 403, share: .user)
        let changes: [RowChange] = [
            .service(.addUser(user)), .service(.note(key: "k", value: "v")), .service(.switchProvider(.fcm, .off)),
            .service(.deviceRequest(request)), .service(.mobileDevice(request)), .engine(.deadToken(dead)),
            .service(.addSecret(StoredSecret(name: "seal", createdAt: date, value: [0, 255, 1]))),
            .service(
                .addKey(
                    StoredKey(
                        name: "key", hash: [UInt8](repeating: 7, count: 32), scopes: "admin", createdAt: date,
                        domains: ""))),
            .engine(.dialogRenewed(1 << 63 | 5, until: date)), .bucket(alice, .upsert(.sample(3, devices: [1, 2]))),
            .timeline(.record(.sample(1, at: date))), .timeline(.record(.sample(2, at: date))),
            .timeline(.record(refused)), .countWakes(limit: 10),
            .engine(.binding(.upsert(.sample(.max, contact: ByteString([0x3C, 0, 0xFF, 0x27, 0x3E]))))),
        ]
        #expect(await writer.write(changes) == true)
        #expect(await writer.write((1...bindings).map { .engine(.binding(.upsert(.sample($0)))) }) == true)
        writer.writer.stop()
    }

    @Test func `a store goes to PostgreSQL and back, and an interrupted copy continues`() async throws {
        let server = try await DatabaseServer.startPostgreSQL([])
        let (old, middle, new) = (
            try StoreFolder(on: nil), try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres"),
            try StoreFolder(on: nil)
        )
        try await fill(old, bindings: 2500)
        let there = try StoreCopy(from: old.place, to: middle.place).run { _ in }
        #expect(there.count == CopiedTable.all.count)
        #expect(there.first { $0.table == "binding" }?.rows == 2501)
        #expect(
            there.filter { $0.rows == 0 }.map(\.table) == ["user_rules", "message", "provision_link", "mobile_app"])
        #expect(try Set(middle.read().bindings) == Set(old.read().bindings))
        #expect(try middle.read { try $0.timeline(of: .push(.sample(2)), limit: 9) }.count == 1)

        // A copy that ended early has a part of the rows, and its mark.
        _ = try StoreCopy(from: middle.place, to: new.place)
        try await partial(from: middle, to: new)
        let back = try StoreCopy(from: middle.place, to: new.place).run { _ in }
        #expect(back == there)
        #expect(try new.read().bindings == old.read().bindings)

        // New rows get new numbers in the copy.
        let writer = try ObservedWriter(middle)
        #expect(await writer.write([.timeline(.record(.sample(5, at: date))), .countWakes(limit: 10)]) == true)
        #expect(try middle.read { try $0.uncountedRecords() } == 0)
        writer.writer.stop()
        await server.ended()
    }

    private func partial(from source: StoreFolder, to target: StoreFolder) async throws {
        let table = try #require(CopiedTable.all.first { $0.sqlite == "binding" })
        let rows = try source.read { try $0.rows(of: table, after: nil, limit: 700) }
        try target.withTables { try $0.insert(rows, into: table) }
    }

    @Test func `a target with data, another copy's target and a store in use are refused`() async throws {
        let server = try await DatabaseServer.startPostgreSQL([])
        let (old, used) = (
            try StoreFolder(on: nil), try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres")
        )
        try await fill(old, bindings: 1)
        try await fill(used, bindings: 1)
        let full = #expect(throws: StoreError.self) { try StoreCopy(from: old.place, to: used.place) }
        #expect(full?.description.contains("is not empty") == true)
        let missing = try StoreFolder(on: nil)
        #expect(throws: StoreError.self) { try StoreCopy(from: missing.place, to: used.place) }
        let begun = try StoreFolder(on: nil)
        _ = try StoreCopy(from: used.place, to: begun.place)
        let other = #expect(throws: StoreError.self) { try StoreCopy(from: old.place, to: begun.place) }
        #expect(other?.description.contains("incomplete copy") == true)
        let copy = try StoreCopy(from: used.place, to: begun.place)
        #expect(throws: StoreError.self) { try begun.opened() }
        _ = try copy.run { _ in }
        await server.ended()
    }

    @Test func `a table whose rows differ is named`() async throws {
        let server = try await DatabaseServer.startPostgreSQL([])
        let (old, new) = (
            try StoreFolder(on: nil), try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres")
        )
        try await fill(old, bindings: 3)
        let copy = try StoreCopy(from: old.place, to: new.place)
        try old.withTables { tables in
            let table = try #require(CopiedTable.all.first { $0.sqlite == "binding" })
            try new.withTables { try $0.insert(try tables.rows(of: table, after: nil, limit: 2), into: table) }
        }
        try new.execute("UPDATE binding SET cseq = 99")
        let refusal = #expect(throws: StoreError.self) { try copy.run { _ in } }
        #expect(refusal?.description.contains("the table binding differs") == true)
        await server.ended()
    }
}

extension StoreFolder {
    /// Opens the tables without the store's lock.
    fileprivate func withTables(_ body: (any StoreTables) throws -> Void) throws {
        if let database {
            try body(try database.open())
        } else {
            try body(try Connection.openStore(path, mayCreate: true))
        }
    }
}
