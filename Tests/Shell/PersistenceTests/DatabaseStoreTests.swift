import Calling
import PushPlanning
import Addressing
import Bytes
import Collections
import Dispatch
import Foundation
import LoopTesting
import ProxyCore
import PushDelivery
import Reactor
import Registration
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Persistence

/// Tests the requirements of ``ProxyStore``, and checks the results with SQLite.
@Suite("Store, as other programs see it", .timeLimit(.minutes(10)))
struct DatabaseStoreTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// Opens a store on a loop that does not run.
    private func open(log: Log = .silent) throws -> DatabaseStore {
        try folder.open(loop: try EventLoop(), log: log)
    }

    private static let bob = DigestUser(name: ByteString("bob"), realm: ByteString("example.net"), ha1: [:])
    private static let never = PushCode.sample(404)

    // MARK: Writes

    @Test func `results come back to the caller, on the loop, with all that it needs`() async throws {
        try await withLoop { loop in
            let store = try folder.open(loop: loop, log: .silent)
            let (engine, service) = (Mailbox<String>(), Mailbox<WriteResult>())
            await Bench(loop).run { _ in
                store.finished = { results in
                    #expect(loop.isCurrent)
                    for result in results { engine.put("\(result.ticket.number) \(result.succeeded)") }
                }
                store.commit([.binding(.upsert(.sample(1)))], CommitTicket(1 << 63))
                store.commit([.addUser(Self.bob)]) { result in
                    #expect(loop.isCurrent)
                    service.put(result)
                }
                let mark = ServiceChange.pushMark(Self.never, device: 1, .read, at: UnixTime(seconds: 1))
                store.commit([mark]) { service.put($0) }
                store.commit([.binding(.upsert(.sample(2)))], CommitTicket(2))
            }
            // The store never mistakes a ticket of the engine for a ticket of a service, even with equal numbers.
            #expect(try await engine.next() == "\(1 << 63 as UInt64) true")
            #expect(try await engine.next() == "2 true")
            #expect(try await service.next() == WriteResult(isStored: true, isFound: true))
            #expect(try await service.next() == WriteResult(isStored: true, isFound: false))
            let content = try folder.read()
            #expect(content.bindings.map(\.id.rawValue) == [1, 2] && content.users == [Self.bob])
            await Bench(loop).run { _ in
                store.close()
                // The result must arrive only after `commit` has returned, because the code that calls `commit` is not
                // ready for the result before.
                store.commit([.addUser(Self.bob)]) { service.put($0) }
                store.commit([.binding(.delete(DeviceID(rawValue: 1)))], CommitTicket(3))
            }
            #expect(try await service.next().isStored == false)
            #expect(try await engine.next() == "3 false")
        }
    }

    @Test func `a call that could not be written is written as soon as it can be, though nothing else happens`()
        async throws
    {
        try await withLoop { loop in
            let calls = folder.folder + "/calls"
            let lines = Mailbox<String>()
            let log = Log(level: .info, sink: LineSink(lines: lines)) { UnixTime(milliseconds: 0) }
            let store = try folder.open(calls: calls, loop: loop, log: log)
            try FileManager.default.removeItem(atPath: calls)
            try Data().write(to: URL(filePath: calls))
            let call = CallJournalTests.call(1, [CallJournalTests.branch()])
            await Bench(loop).run { _ in
                store.journal(.begun(call))
                store.flushJournal()
            }
            while try await !lines.next().contains("the call journal cannot be written") {}
            try FileManager.default.removeItem(atPath: calls)
            while try await !lines.next().contains("the call journal can be written again") {}
            let secret = try await store.secrets(named: JournalKey.name).first
            let key = try JournalKey(try #require(secret).value)
            #expect(CallJournal(folder: calls, key: key, log: .silent).calls(after: 0, limit: 9) == [call])
            await Bench(loop).run { _ in store.close() }
        }
    }

    private struct LineSink: LogSink {
        let lines: Mailbox<String>

        func write(_ line: [UInt8]) -> Bool {
            lines.put(String(decoding: line, as: UTF8.self))
            return true
        }
    }

    @Test func `changes without a waiting caller are written at the stop`() throws {
        let store = try open()
        store.record([.binding(.upsert(.sample(1))), .binding(.upsert(.sample(2)))])
        store.refresh([.sample(1, cseq: 7)])
        store.record([.addUser(Self.bob)])
        store.trace([.record(.sample(1, at: UnixTime(seconds: 1)))])
        store.close()
        let content = try folder.read()
        #expect(content.bindings.map(\.cseq) == [7, 1])
        #expect(content.users == [Self.bob])
        #expect(try folder.rowCounts()["push_record"] == 1)
    }

    // MARK: Questions

    @Test func `contacts and dead tokens are read page by page, each once`() async throws {
        let store = try open()
        defer { store.close() }
        let writer = try ObservedWriter(folder)
        let ids: [UInt64] = [1, 2, 3, 1 << 62, .max]
        let dead = ids.map { id in
            DeadToken(
                token: PushToken(provider: .fcm, param: .empty, prid: ByteString("\(id)")), since: UnixTime(seconds: 1),
                recordedAt: UnixTime(seconds: 2), source: .provider,
                domain: ByteString("example.net"))
        }
        #expect(
            await writer.write(
                ids.map { .engine(.binding(.upsert(.sample($0)))) } + dead.map { .engine(.deadToken($0)) }) == true)
        writer.writer.stop()
        var devices: [DeviceID] = []
        while devices.count < 99, case let page = try await store.bindings(after: devices.last, limit: 2), !page.isEmpty
        {
            #expect(page.count <= 2)
            devices += page.map(\.id)
        }
        #expect(devices.count == ids.count && Set(devices.map(\.rawValue)) == Set(ids))
        var tokens: [DeadToken] = []
        var place: PageCursor? = .beginning
        while tokens.count < 99, let after = place {
            let page = try await store.deadTokens(since: UnixTime(seconds: 0), after: after, limit: 2, in: nil)
            tokens += page.elements
            place = page.next
        }
        #expect(tokens == dead)
        #expect(
            try await store.deadTokens(since: UnixTime(seconds: 0), after: .beginning, limit: 5, in: nil).next == nil)
    }

    @Test func `changes without a waiting caller are found by the next read`() async throws {
        let store = try open()
        defer { store.close() }
        for number in 1...3 as ClosedRange<UInt64> {
            store.trace([.record(.sample(number, at: UnixTime(seconds: 1)))])
            #expect(
                try await store.timeline(of: [.push(.sample(number))], limit: 9, in: nil).map(\.code) == [
                    .sample(number)
                ])
        }
    }

    @Test func `records are those of the first subject that has any`() async throws {
        let store = try open()
        store.trace([1, 2].map { .record(.sample($0, at: UnixTime(seconds: 1))) })
        store.close()
        let reading = try open()
        defer { reading.close() }
        let stranger = AddressOfRecord(user: ByteString("eve"), host: ByteString("example.net"))
        let subjects: [TimelineSubject] = [
            .user(stranger), .callID(ByteString("c9")), .call(CallRef(rawValue: 2)), .push(.sample(1)),
        ]
        #expect(try await reading.timeline(of: subjects, limit: 9, in: nil).map(\.code) == [.sample(2)])
        #expect(try await reading.timeline(of: [.push(.sample(1))], limit: 9, in: nil).map(\.code) == [.sample(1)])
        #expect(try await reading.timeline(of: [.user(stranger)], limit: 9, in: nil).isEmpty)
    }

    @Test(.onlySQLite) func `a long query delays no commit, and too many at a time are refused`() async throws {
        let store = try StoreReader(SQLiteSource(path: folder.path), thread: "queries")
        try folder.keep([.addUser(Self.bob)])
        let writer = try ObservedWriter(folder)
        let (begun, mayEnd) = (Mailbox<Bool>(), DispatchSemaphore(value: 0))
        try await withThrowingTaskGroup(of: Int.self) { group in
            group.addTask {
                try await store.read { tables in
                    let connection = try #require(tables as? Connection)
                    let rows = try connection.statement("SELECT * FROM user")
                    let isThere = try rows.step()
                    begun.put(true)
                    _ = mayEnd.wait(timeout: .now() + 30)
                    return isThere ? 1 : 0
                }
            }
            _ = try await begun.next()
            #expect(await writer.write([.service(.removeUser(name: Self.bob.name, realm: Self.bob.realm))]) == true)
            for _ in 0..<65 { group.addTask { (try? await store.read { try $0.users().count }) ?? -1 } }
            // One of the concurrent reads exceeds the limit, and fails while the remaining reads wait.
            #expect(try await group.next() == -1)
            mayEnd.signal()
            var answers: [Int] = []
            for try await count in group { answers.append(count) }
            #expect(answers.sorted() == Array(repeating: 0, count: 64) + [1])
        }
        store.stop()
        writer.writer.stop()
    }

    // MARK: Start, end, backup

    @Test(.onlySQLite) func `one process has the store, until it lets go`() async throws {
        let store = try open()
        let refusal = #expect(throws: StoreError.self) { try open() }
        #expect(refusal?.description.contains("\(folder.path).lock") == true)
        #expect(throws: StoreError.self) { try folder.opened() }
        store.close()
        #expect(try folder.opened().users().isEmpty)
        try open().close()
    }

    @Test(.onlySQLite) func `a backup contains the stored data, and a failure has its reason`() async throws {
        let store = try open()
        defer { store.close() }
        try await store.keep([.addUser(Self.bob)])
        let copy = folder.folder + "/copy.db"
        #expect(try await store.backUp(to: copy) > 0)
        #expect(try CommandStore(path: copy).users() == [Self.bob])
        await #expect(throws: BackupFailure.self) { try await store.backUp(to: folder.path) }
    }
}
