import Addressing
import Bytes
import Foundation
import ProxyCore
import PushDelivery
import Registration
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

@Suite("Store", .timeLimit(.minutes(10)))
struct StoreWriterTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func `rows are read back as they were written`() async throws {
        let store = try ObservedWriter(folder)
        let rows = [
            StoredBinding.sample(1),
            .sample(
                UInt64(Int64.max), cseq: .max, path: ["<sip:p1;lr>", "<sip:p2;lr>"],
                remote: try #require(Endpoint("[2001:db8::1]:65535"))),
            // A stored contact whose bytes are no valid text, and whose row number is negative in SQL.
            .sample(.max, contact: ByteString([0x3C, 0, 0xFF, 0x27, 0x3E])),
        ]
        let user = DigestUser(
            name: ByteString("bob"), realm: ByteString("r"), ha1: [.md5: ByteString("aa"), .sha256: ByteString("bb")])
        var entry = BucketEntry.sample(.max, devices: [1, DeviceID(rawValue: .max)])
        entry.told = [2, 3]
        #expect(await store.write(rows.map { .engine(.binding(.upsert($0))) }) == true)
        #expect(
            await store.write([
                .bucket(alice, .upsert(entry)), .service(.addUser(user)), .service(.switchProvider(.fcm, .off)),
                .service(.switchProvider(.apns, .paused)),
                .service(.note(key: "k", value: "v")),
            ]) == true)
        let content = try folder.read()
        #expect(Set(content.bindings) == Set(rows))
        #expect(content.entries[entry.callRef]?.entry == entry)
        #expect(content.entries[entry.callRef]?.aor == alice)
        #expect(content.users == [user])
        #expect(content.disabledProviders == [.fcm] && content.pausedProviders == [.apns])
        #expect(try folder.read { try $0.note("k") } == "v")
        store.writer.stop()
    }

    @Test func `changes take effect in the order of their submission`() async throws {
        let store = try ObservedWriter(folder)
        let user = DigestUser(name: ByteString("bob"), realm: ByteString("r"), ha1: [:])
        let changes: [RowChange] = [
            .engine(.binding(.upsert(.sample(1)))), .engine(.binding(.upsert(.sample(1, cseq: 2)))),
            .engine(.binding(.upsert(.sample(2)))),
            .engine(.binding(.delete(DeviceID(rawValue: 2)))), .bucket(alice, .upsert(.sample(1))),
            .bucket(alice, .delete(CallRef(rawValue: 1))), .service(.addUser(user)),
            .service(.removeUser(name: user.name, realm: user.realm)), .service(.switchProvider(.apns, .paused)),
            .service(.switchProvider(.apns, .on)),
        ]
        for (index, change) in changes.enumerated() {
            #expect(store.writer.commit([change], for: .service(UInt64(index))))
        }
        let results = await store.results(changes.count)
        #expect(results.map(\.number) == (0..<UInt64(changes.count)).map { $0 })
        #expect(results.count { !$0.isStored } == 0)
        let content = try folder.read()
        #expect(content.bindings == [.sample(1, cseq: 2)])
        #expect(content.entries.isEmpty)
        #expect(content.users.isEmpty)
        #expect(content.disabledProviders.isEmpty)
        #expect(try folder.rowCounts()["provider_switch"] == 1)
        store.writer.stop()
    }

    @Test func `a stream connection does not survive, its address does`() async throws {
        let store = try ObservedWriter(folder)
        #expect(await store.write([.engine(.binding(.upsert(.sample(1, connection: 77))))]) == true)
        #expect(try folder.read().bindings.map(\.flow) == [StoredBinding.sample(1, connection: 0).flow])
        store.writer.stop()
    }

    @Test func `many changes share few commits`() async throws {
        let store = try ObservedWriter(folder)
        for id in 1...5000 {
            #expect(
                store.writer.commit([.engine(.binding(.upsert(.sample(UInt64(id)))))], for: .service(UInt64(id))))
        }
        _ = await store.results(5000)
        #expect(store.writer.figures[.storeChange] == 5000)
        #expect(store.writer.figures[.storeCommit] < 500)
        #expect(store.writer.figures[.storeQueue] == 0)
        #expect(try folder.read().bindings.count == 5000)
        store.writer.stop()
    }

    @Test func `changes that are not awaited gather, and are written with the next awaited one`() async throws {
        var settings = StoreWriterSettings()
        settings.gatherInterval = .seconds(3600)
        let store = try ObservedWriter(folder, settings)
        for id in 1...10 {
            #expect(
                store.writer.record(
                    [.engine(.binding(.upsert(.sample(UInt64(id)))))]))
        }
        #expect(store.writer.figures[.storeQueue] == 10)
        #expect(await store.write([.engine(.binding(.upsert(.sample(11))))]) == true)
        #expect(store.writer.figures[.storeCommit] == 1)
        #expect(try folder.read().bindings.count == 11)
        store.writer.stop()
    }

    @Test func `changes that are not awaited are written even if no other comes`() async throws {
        let store = try ObservedWriter(folder)
        let row = RowChange.engine(.binding(.upsert(.sample(1))))
        #expect(store.writer.record([row]))
        #expect(await store.results(1).map(\.isStored) == [true])
        #expect(try folder.read().bindings.count == 1)
        store.writer.stop()
    }

    @Test func `if many changes are not awaited, the first ones are written before the end of the gathering time`()
        async throws
    {
        var settings = StoreWriterSettings()
        settings.gatherInterval = .seconds(3600)
        settings.gatherLimit = 3
        let store = try ObservedWriter(folder, settings)
        for id in 1...3 { #expect(store.writer.record([.engine(.binding(.upsert(.sample(UInt64(id)))))])) }
        #expect(await store.results(3).map(\.isStored) == [true, true, true])
        #expect(try folder.read().bindings.count == 3)
        store.writer.stop()
    }

    @Test func `of a row that changes several times in a transaction the last change is written`() async throws {
        let store = try ObservedWriter(folder)
        let (first, second) = (CallRef(rawValue: 1), CallRef(rawValue: 2))
        var told = BucketEntry.sample(2, devices: [7])
        told.told = [8]
        #expect(
            await store.write([
                .bucket(alice, .upsert(.sample(1))), .bucket(alice, .upsert(.sample(2))),
                .service(.forgetMissedCalls([second])), .bucket(alice, .delete(first)), .bucket(alice, .upsert(told)),
                .bucket(alice, .upsert(.sample(3))), .service(.forgetMissedCalls([CallRef(rawValue: 3)])),
            ]) == true)
        #expect(try folder.read().entries.values.map(\.entry) == [told])
        store.writer.stop()
    }

    @Test(.onlySQLite) func `the write-ahead log is copied during the writing and starts again`() async throws {
        var settings = StoreWriterSettings()
        settings.checkpointPages = 50
        settings.batchLimit = 20
        let store = try ObservedWriter(folder, settings)
        for id in 1...4000 {
            _ = store.writer.commit([.engine(.binding(.upsert(.sample(UInt64(id)))))], for: .service(UInt64(id)))
        }
        _ = await store.results(4000)
        // Checkpoints keep the log small: without checkpoints, 200 commits of several pages would exceed the limit of the test.
        let log = try FileManager.default.attributesOfItem(atPath: folder.path + "-wal")[.size] as? Int
        #expect(try #require(log) < 400 * 4096)
        store.writer.stop()
        #expect(try folder.read().bindings.count == 4000)
    }

    @Test func `beyond the limit changes are refused, and later they are accepted again`() async throws {
        var settings = StoreWriterSettings()
        settings.queueLimit = 3
        let store = try ObservedWriter(folder, settings)
        let row = RowChange.engine(.binding(.upsert(.sample(1))))
        #expect(await store.write([row, row, row, row]) == nil)
        #expect(await store.write([row, row, row]) == true)
        #expect(await store.write([row, row, row]) == true)
        store.writer.stop()
        #expect(await store.write([row]) == nil)
        #expect(!store.writer.refresh([.sample(2)]))
    }

    @Test func `stopping writes all waiting changes and leaves one file`() async throws {
        let store = try ObservedWriter(folder)
        for id in 1...3000 {
            _ = store.writer.commit([.engine(.binding(.upsert(.sample(UInt64(id)))))], for: .service(UInt64(id)))
        }
        #expect(store.writer.refresh([.sample(1, cseq: 9)]))
        store.writer.stop()
        if StoreFolder.isSQLite {
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.folder) == ["store.db"])
        }
        let content = try folder.read()
        #expect(content.bindings.count == 3000)
        #expect(content.bindings.first?.cseq == 9)
    }

    @Test(.onlySQLite) func `the store of the first version is migrated with its content`() throws {
        do {
            let old = try Connection(path: folder.path)
            try old.migrate([StoreSchema.scripts[0]], applicationID: StoreSchema.applicationID)
            try old.execute(
                "INSERT INTO bucket_entry VALUES ('00000000000000ff', 'bob', 'example.net', '103', 1000, '7,8', 1)")
        }
        try ObservedWriter(folder).writer.stop()
        let entry = try #require(try folder.read().entries[CallRef(rawValue: 255)]?.entry)
        #expect(entry.devices == [7, 8])
        #expect(entry.told == [])
        #expect(entry.caller == ByteString("103"))
    }

    @Test(.onlySQLite) func `missed calls keep their numbers when these become numbers`() throws {
        do {
            let old = try Connection(path: folder.path)
            try old.migrate(Array(StoreSchema.scripts.prefix(8)), applicationID: StoreSchema.applicationID)
            try old.execute(
                """
                INSERT INTO bucket_entry VALUES ('fedcba9876543210', 'bob', 'example.net', '103', 1000, '7', 1, '8,9'),
                ('0123456789abcdef', 'eve', 'example.net', '104', 1001, '5,6', 0, ''),
                ('odd', 'eve', 'example.net', '105', 1002, '5', 0, '')
                """)
        }
        try ObservedWriter(folder).writer.stop()
        let entries = try folder.read().entries
        let (first, second) = (CallRef(rawValue: 0xfedc_ba98_7654_3210), CallRef(rawValue: 0x0123_4567_89ab_cdef))
        #expect(Set(entries.keys) == [first, second])
        let entry = try #require(entries[first])
        #expect(entry.aor.user == ByteString("bob") && entry.entry.caller == ByteString("103"))
        #expect(entry.entry.devices == [7] && entry.entry.told == [8, 9] && entry.entry.isOver)
        #expect(entries[second]?.entry.devices == [5, 6])
    }

    @Test(.onlySQLite) func `a store of the first version gets the new tables and keeps its rows`() throws {
        do {
            let old = try Connection(path: folder.path)
            try old.migrate(Array(StoreSchema.scripts.prefix(1)), applicationID: StoreSchema.applicationID)
            try old.execute("INSERT INTO meta VALUES ('a', 'b')")
        }
        #expect(try folder.opened().keys().isEmpty)
        #expect(try folder.read { try $0.note("a") } == "b")
    }

    @Test(.onlySQLite) func `open calls of an earlier version are removed with their table, and missed calls stay`()
        throws
    {
        do {
            let old = try Connection(path: folder.path)
            try old.migrate(Array(StoreSchema.scripts.prefix(14)), applicationID: StoreSchema.applicationID)
            try old.execute(
                """
                INSERT INTO open_call VALUES (1, 'bob', 'example.net', 'c1', NULL, 7, 1000, NULL, 'fcm', NULL);
                INSERT INTO bucket_entry VALUES (255, 'bob', 'example.net', '103', 1000, '7', 0, '', 0);
                """)
        }
        try ObservedWriter(folder).writer.stop()
        #expect(try folder.read().entries[CallRef(rawValue: 255)]?.entry.devices == [7])
        #expect(try folder.rowCounts()["open_call"] == nil)
    }

    @Test(.onlySQLite) func `the store of a newer version is refused, as is another program's file`() throws {
        try ObservedWriter(folder).writer.stop()
        try Connection(path: folder.path).execute("PRAGMA user_version = 99")
        let known = StoreSchema.scripts.count
        #expect(throws: SQLiteFailure.migration(.newerSchema(found: 99, known: known))) {
            try ObservedWriter(folder)
        }
        #expect(throws: SQLiteFailure.migration(.newerSchema(found: 99, known: known))) {
            _ = try Connection.openStore(folder.path, mayCreate: false)
        }
        let other = folder.folder + "/other.db"
        try Connection(path: other).execute("CREATE TABLE t (a)")
        #expect(throws: SQLiteFailure.migration(.foreignFile(applicationID: 0))) { try ObservedWriter(other) }
    }

    @Test func `rows that cannot be read are left`() async throws {
        let store = try ObservedWriter(folder)
        #expect(
            await store.write([.engine(.binding(.upsert(.sample(1)))), .engine(.binding(.upsert(.sample(2))))]) == true)
        try folder.execute("UPDATE binding SET remote = 'nowhere' WHERE id = 1")
        let content = try folder.read()
        #expect(content.bindings == [.sample(2)])
        #expect(try folder.rowCounts()["binding"] == 2)
        store.writer.stop()
    }
}

@Suite("Store, lazy rows", .timeLimit(.minutes(10)))
struct StoreLazyTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func writer(interval: Duration) throws -> ObservedWriter {
        var settings = StoreWriterSettings()
        settings.lazyInterval = interval
        settings.lazyLimit = 10
        return try ObservedWriter(folder, settings)
    }

    @Test func `they are written by themselves after the interval`() async throws {
        let store = try writer(interval: .milliseconds(1))
        #expect(await store.write([.engine(.binding(.upsert(.sample(1))))]) == true)
        #expect(store.writer.refresh([.sample(1, cseq: 5)]))
        while try folder.read().bindings.first?.cseq != 5 { await Task.yield() }
        store.writer.stop()
    }

    @Test func `they wait while the interval runs, and the newest of a binding counts`() async throws {
        let store = try writer(interval: .seconds(3600))
        #expect(await store.write([.engine(.binding(.upsert(.sample(1))))]) == true)
        #expect(store.writer.refresh([.sample(1, cseq: 5)]))
        #expect(store.writer.refresh([.sample(1, cseq: 6)]))
        #expect(await store.write([.engine(.binding(.upsert(.sample(2))))]) == true)
        #expect(try folder.read().bindings.first?.cseq == 1)
        store.writer.stop()
        #expect(try folder.read().bindings.first?.cseq == 6)
    }

    @Test func `they change the same values as a refresh, and restore no deleted contact`() async throws {
        let store = try writer(interval: .seconds(3600))
        #expect(
            await store.write([.engine(.binding(.upsert(.sample(1, contact: ByteString("<sip:bob@old>")))))]) == true)
        var row = StoredBinding.sample(1, cseq: 5)
        row = StoredBinding(
            id: row.id, aor: row.aor, contact: row.contact, callID: ByteString("other"), cseq: 5, path: row.path,
            flow: row.flow, granted: 60, freshUntil: UnixTime(milliseconds: 7), registeredAt: UnixTime(milliseconds: 6),
            isPush: true)
        #expect(store.writer.refresh([row, .sample(2)]))
        store.writer.stop()
        let stored = try folder.read().bindings
        #expect(stored.count == 1)
        let first = try #require(stored.first)
        #expect(first.contact == ByteString("<sip:bob@old>"))
        #expect(first.callID == ByteString("other") && first.cseq == 5 && first.granted == 60)
        #expect(first.freshUntil == UnixTime(milliseconds: 7) && first.registeredAt == UnixTime(milliseconds: 6))
    }

    @Test func `the User-Agent is written by changes that have it, and others leave it`() async throws {
        let (old, new) = (ByteString("Linphone/5.0"), ByteString("Linphone/5.1"))
        func stored() throws -> [DeviceID: ByteString] {
            try folder.read { try $0.userAgents(of: [1, 2, 3]) }
        }
        let store = try writer(interval: .seconds(3600))
        #expect(await store.write([.engine(.binding(.upsert(.sample(1, userAgent: old))))]) == true)
        #expect(await store.write([.engine(.binding(.upsert(.sample(2, userAgent: .empty))))]) == true)
        #expect(try stored() == [1: old])
        // The first change replaces a contact, and the second change adds a device that an app has reported.
        #expect(
            await store.write([.engine(.binding(.upsert(.sample(1, contact: ByteString("<sip:bob@new>")))))]) == true)
        #expect(await store.write([.engine(.binding(.upsert(.sample(3))))]) == true)
        #expect(try stored() == [1: old])
        #expect(store.writer.refresh([.sample(1, cseq: 2), .sample(2, cseq: 2, userAgent: new)]))
        store.writer.stop()
        #expect(try stored() == [1: old, 2: new])
        let later = try writer(interval: .seconds(3600))
        #expect(await later.write([.engine(.binding(.delete(1)))]) == true)
        #expect(await later.write([.engine(.binding(.upsert(.sample(1))))]) == true)
        #expect(try stored() == [2: new])
        #expect(later.writer.refresh([.sample(2, cseq: 3, userAgent: .empty)]))
        later.writer.stop()
        #expect(try stored() == [:])
    }

    @Test func `they never overwrite a later change of the same binding`() async throws {
        let store = try writer(interval: .seconds(3600))
        #expect(
            await store.write([.engine(.binding(.upsert(.sample(1)))), .engine(.binding(.upsert(.sample(2))))]) == true)
        #expect(store.writer.refresh([.sample(1, cseq: 5), .sample(2, cseq: 5)]))
        #expect(
            await store.write([
                .engine(.binding(.delete(DeviceID(rawValue: 1)))), .engine(.binding(.upsert(.sample(2, cseq: 7)))),
            ])
                == true)
        store.writer.stop()
        #expect(try folder.read().bindings == [.sample(2, cseq: 7)])
    }

    @Test func `beyond the limit they are refused`() throws {
        let store = try writer(interval: .seconds(3600))
        #expect(store.writer.refresh((1...10).map { .sample($0) }))
        #expect(!store.writer.refresh([.sample(11)]))
        store.writer.stop()
    }
}
