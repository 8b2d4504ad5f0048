import Addressing
import Bytes
import Calling
import Glibc
@testable import Persistence
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import Storage
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests that the next run of the daemon finds the calls that the journal wrote.
@Suite struct CallJournalTests {
    private static let flow = Flow(
        transport: .udp, listener: 3, connection: 0, remote: Endpoint(IPAddress(v4: 0xc000_0201), 5061))
    private static let sent = StoredCall.SentINVITE(
        via: ByteString("SIP/2.0/UDP a;branch=z9hG4bK1"), requestURI: ByteString("sip:bob@192.0.2.1"),
        routes: [ByteString("<sip:edge;lr>"), ByteString("<sip:other;lr>")], flow: flow)

    static func branch(
        _ stage: StoredCall.Branch.Stage = .waiting, code: PushCode? = PushCode(high: 1, low: 2), woken: Bool = false,
        end: ForkBranch.End? = nil, sent: StoredCall.SentINVITE? = nil, former: [ByteString] = []
    ) -> StoredCall.Branch {
        StoredCall.Branch(
            stage: stage, device: DeviceID(rawValue: 9), contact: nil, wasPushed: woken, wasWoken: woken,
            deviceKnows: false, hasMoved: false, record: nil, code: code, end: end, sent: sent, former: former)
    }

    static func call(
        _ id: UInt64, final: String = "", sender: AddressOfRecord? = nil, isOffered: Bool = true,
        _ branches: [StoredCall.Branch]
    ) -> StoredCall {
        let userCall = StoredUserCall(
            aor: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net")),
            callRef: CallRef(rawValue: .max), callID: .empty, fromTag: .empty,
            holdUntil: UnixTime(milliseconds: 1_790_000_030_123), mayPush: true)
        return StoredCall(
            id: id, userCall: isOffered ? userCall : nil, receivedAt: UnixTime(milliseconds: 1_790_000_000_123),
            source: flow, isTrusted: sender == nil, sender: sender,
            request: ByteString("INVITE sip:bob@example.net SIP/2.0\r\n\r\n"),
            final: ByteString(final), branches: branches)
    }

    /// Returns the calls that the next run finds if the present run writes the changes in `turns` turns of the event
    /// loop.
    private static func kept(_ changes: [CallChange], turns: Int = 1) throws -> [StoredCall] {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        for change in changes {
            journal.note(change)
            if turns > 1 { journal.flush(now: now) }
        }
        journal.flush(now: now)
        return CallJournal(folder: folder.path, log: .silent).calls(after: 0, limit: 100)
    }

    @Test func `a call is read back as it was written`() throws {
        let sender = AddressOfRecord(user: ByteString("al@ice"), host: ByteString("example.net"))
        let calls = [
            Self.call(1, [Self.branch(), Self.branch(.called, code: nil, sent: Self.sent)]),
            Self.call(7, sender: sender, [Self.branch(woken: true)]),
            Self.call(8, sender: sender, isOffered: false, [Self.branch(.called, code: nil, sent: Self.sent)]),
        ]
        #expect(try Self.kept(calls.map { .begun($0) }) == calls)
    }

    @Test func `its changes are kept, and earlier requests as well`() throws {
        let other = StoredCall.SentINVITE(
            via: ByteString("SIP/2.0/UDP a;branch=z9hG4bK2"), requestURI: Self.sent.requestURI, routes: [],
            flow: Self.flow)
        let found = try Self.kept([
            .begun(Self.call(1, [Self.branch()])),
            .branch(call: 1, number: 0, Self.branch(code: nil, woken: true)),
            .branch(call: 1, number: 0, Self.branch(.called, code: nil, woken: true, sent: Self.sent)),
            .branch(call: 1, number: 0, Self.branch(.called, code: nil, woken: true, sent: other)),
            .branch(call: 1, number: 1, Self.branch(.called, sent: Self.sent)),
            .branch(call: 1, number: 0, Self.branch(.ended, code: nil, woken: true, end: .failed(486))),
            .final(call: 1, Array("SIP/2.0 486 Busy Here\r\n\r\n".utf8)),
        ])
        let wanted = Self.call(
            1, final: "SIP/2.0 486 Busy Here\r\n\r\n",
            [
                Self.branch(.ended, woken: true, end: .failed(486), sent: other, former: [Self.sent.via]),
                Self.branch(.called, sent: Self.sent),
            ])
        #expect(found == [wanted])
    }

    @Test(arguments: [
        ForkBranch.End.succeeded, .failed(486), .gaveUp(503), .silent, .cancelled(.answeredElsewhere),
        .cancelled(.declinedElsewhere(603)), .cancelled(.callerCancelled), .cancelled(.endedByOperator(480)),
        .cancelled(.moved),
    ])
    func `each end of a branch is read back`(end: ForkBranch.End) throws {
        let call = Self.call(1, [Self.branch(.ended, end: end)])
        #expect(try Self.kept([.begun(call)]) == [call])
    }

    @Test func `a connection is not restored`() throws {
        let theirs = Flow(transport: .tcp, listener: 1, connection: 8, remote: Self.flow.remote)
        let sent = StoredCall.SentINVITE(via: Self.sent.via, requestURI: Self.sent.requestURI, routes: [], flow: theirs)
        let found = try Self.kept([.begun(Self.call(1, [Self.branch(.called, sent: sent)]))])
        #expect(found.first?.branches.first?.sent?.flow.isClosed == true)
    }

    @Test func `calls that are over or could not be written leave no entry`() throws {
        let found = try Self.kept([
            .begun(Self.call(1, [Self.branch()])), .over(call: 1), .branch(call: 2, number: 0, Self.branch()),
        ])
        #expect(found.isEmpty)
    }

    @Test func `calls are read in pages`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        let calls = (1...5).map { Self.call($0, [Self.branch(), Self.branch(.called, sent: Self.sent)]) }
        for call in calls { journal.note(.begun(call)) }
        journal.flush(now: now)
        let next = CallJournal(folder: folder.path, log: .silent)
        #expect(next.calls(after: 0, limit: 2) == Array(calls[..<2]))
        #expect(next.calls(after: 2, limit: 2) == Array(calls[2..<4]))
        #expect(next.calls(after: 4, limit: 2) == Array(calls[4...]))
        #expect(next.calls(after: 5, limit: 2).isEmpty)
    }

    // MARK: Missed calls

    private static func missed(_ ref: UInt64, _ change: ((CallRef) -> BucketChange)? = nil) -> StoredBucketChange {
        let entry = BucketEntry(
            callRef: CallRef(rawValue: ref), caller: ByteString("sip:al@example.com"),
            date: UnixTime(milliseconds: 1_790_000_000_123), broughtBy: Caller(rawValue: .max),
            devices: [DeviceID(rawValue: 3), DeviceID(rawValue: .max)],
            told: [DeviceID(rawValue: 4)], isOver: true)
        return StoredBucketChange(
            aor: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net")),
            change: change?(entry.callRef) ?? .upsert(entry))
    }

    @Test func `missed calls are read back in order, without the ones in the store`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        let changes = [Self.missed(1), Self.missed(2), Self.missed(1) { .delete($0) }]
        for change in changes { journal.note(.missed(change)) }
        journal.flush(now: now)
        func found(after serial: UInt64) -> [BucketChange] {
            CallJournal(folder: folder.path, log: .silent).missedCalls(after: serial).map(\.change)
        }
        #expect(found(after: 0) == changes.map(\.change))
        #expect(found(after: 2) == [changes[2].change])
        #expect(found(after: 3).isEmpty)
    }

    @Test func `numbers continue after the store's last one if the files were removed`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        #expect(journal.missedCalls(after: 100).isEmpty)
        journal.note(.missed(Self.missed(1)))
        journal.flush(now: now)
        #expect(CallJournal(folder: folder.path, log: .silent).missedCalls(after: 100).count == 1)
    }

    // MARK: Cleaning

    private static var small: CallJournalSettings {
        var settings = CallJournalSettings()
        settings.fileSize = 4096
        settings.slack = 8192
        return settings
    }

    @Test func `useless files are removed, and open calls are kept`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, settings: Self.small, log: .silent)
        journal.askStore = { [unowned journal] in journal.stored($0) }
        let long = [1, 2].map { Self.call($0, [Self.branch(.called, sent: Self.sent)]) }
        for call in long { journal.note(.begun(call)) }
        journal.note(.branch(call: 2, number: 0, Self.branch(.ended, code: nil, end: .failed(486))))
        var largest = 0
        for id in 3...2000 as ClosedRange<UInt64> {
            journal.note(.begun(Self.call(id, [Self.branch()])))
            journal.flush(now: now)
            journal.note(.over(call: id))
            journal.flush(now: now)
            largest = max(largest, journal.size)
        }
        #expect(largest < 5 * 8192)
        var ended = long[1]
        ended.branches = [Self.branch(.ended, end: .failed(486), sent: Self.sent)]
        let next = CallJournal(folder: folder.path, settings: Self.small, log: .silent)
        #expect(next.calls(after: 0, limit: 10) == [long[0], ended])
    }

    @Test func `a file stays until the store has its missed calls`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, settings: Self.small, log: .silent)
        var asked: UInt64 = 0
        journal.askStore = { asked = $0 }
        for id in 1...400 as ClosedRange<UInt64> {
            journal.note(.missed(Self.missed(id)))
            journal.flush(now: now)
        }
        #expect(CallJournal(folder: folder.path, log: .silent).missedCalls(after: 0).count == 400)
        #expect(journal.size > 30_000)
        journal.askStore = { [unowned journal] in
            asked = $0
            journal.stored($0)
        }
        for id in 401...900 as ClosedRange<UInt64> {
            journal.note(.missed(Self.missed(id)))
            journal.flush(now: now)
        }
        let kept = CallJournal(folder: folder.path, log: .silent).missedCalls(after: asked)
        #expect(kept.count == 900 - Int(asked))
        #expect(journal.size < 20_000)
    }

    @Test func `while the store fails the files are limited, and the latest missed calls are kept`()
        throws
    {
        let folder = try TemporaryFolder()
        var settings = Self.small
        settings.unstoredLimit = 40_000
        let sink = MemoryLogSink()
        let journal = CallJournal(
            folder: folder.path, settings: settings, log: Log(level: .warning, sink: sink) { UnixTime(seconds: 0) })
        let call = Self.call(1, [Self.branch()])
        journal.note(.begun(call))
        var largest = 0
        for id in 1...2000 as ClosedRange<UInt64> {
            journal.note(.missed(Self.missed(id)))
            journal.flush(now: now)
            largest = max(largest, journal.size)
        }
        #expect((40_000..<60_000).contains(largest))
        let next = CallJournal(folder: folder.path, log: .silent)
        #expect(next.calls(after: 0, limit: 10) == [call])
        let kept = next.missedCalls(after: 0).map(\.change)
        #expect(kept == (2001 - UInt64(kept.count)...2000).map { Self.missed($0).change } && kept.count > 200)
        #expect(sink.lines.count == 1)
    }

    @Test func `calls that the store does not know yet are not expected in it`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, settings: Self.small, log: .silent)
        var told: UInt64 = 0
        journal.askStore = { #expect($0 <= told) }
        for id in 1...200 as ClosedRange<UInt64> {
            journal.note(.missed(Self.missed(id)))
            journal.flush(now: now)
            // After the flush of the journal, the shell passes the change on to the store.
            told = id
        }
        #expect(journal.size > 3 * 4096)
    }

    @Test func `nothing is left behind an orderly end without calls`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        journal.note(.begun(Self.call(1, [Self.branch()])))
        journal.flush(now: now)
        journal.note(.over(call: 1))
        journal.close(isStored: true, now: now)
        #expect(AppendedFile.names(in: folder.path).allSatisfy { $0.hasPrefix(".") })
    }

    @Test func `a run continues where another one ended`() throws {
        let folder = try TemporaryFolder()
        let first = CallJournal(folder: folder.path, log: .silent)
        for id in 1...3 as ClosedRange<UInt64> { first.note(.begun(Self.call(id, [Self.branch()]))) }
        first.flush(now: now)
        let second = CallJournal(folder: folder.path, log: .silent)
        second.note(.over(call: 1))
        second.note(.branch(call: 2, number: 0, Self.branch(woken: true)))
        second.note(.branch(call: 9, number: 0, Self.branch(woken: true)))
        second.flush(now: now)
        let third = CallJournal(folder: folder.path, log: .silent)
        #expect(
            third.calls(after: 0, limit: 9) == [
                Self.call(2, [Self.branch(woken: true)]), Self.call(3, [Self.branch()]),
            ])
    }

    @Test func `many short runs leave few files, and a number that is used again is another call`() throws {
        let folder = try TemporaryFolder()
        var mark: UInt64 = 0
        for run in 0..<100 {
            let journal = CallJournal(folder: folder.path, log: .silent)
            _ = journal.missedCalls(after: mark)
            journal.askStore = { mark = $0 }
            journal.note(.over(call: 7))
            let branch = Self.branch(code: PushCode(high: UInt64(run), low: 1))
            journal.note(.begun(Self.call(7, [branch])))
            journal.flush(now: now)
            let found = CallJournal(folder: folder.path, log: .silent).calls(after: 0, limit: 10)
            #expect(found == [Self.call(7, [branch])])
        }
        #expect(AppendedFile.names(in: folder.path).count { $0.hasSuffix(".calls") } < 20)
    }

    // MARK: Faults

    @Test func `in a damaged file, all entries before the damage are read`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        let calls = (1...3).map { Self.call($0, [Self.branch(.called, sent: Self.sent, former: [Self.sent.via])]) }
        for call in calls { journal.note(.begun(call)) }
        journal.note(.missed(Self.missed(1)))
        journal.flush(now: now)
        let path = "\(folder.path)/1.calls"
        let bytes = try AppendedFile.contents(of: path)
        func read(_ bytes: [UInt8]) -> [StoredCall] {
            var contents = JournalContents()
            _ = contents.read(bytes, .forTests)
            return contents.calls(after: 0, limit: 10)
        }
        #expect(read(bytes) == calls)
        for end in 0..<bytes.count {
            let found = read(Array(bytes[..<end]))
            #expect(found == Array(calls.prefix(found.count)))
            var damaged = bytes
            damaged[end] ^= 0x41
            #expect(read(damaged).allSatisfy(calls.contains))
        }
    }

    @Test func `entries with another key's seal, or without one, are not read`() throws {
        let folder = try TemporaryFolder()
        let lines = MemoryLogSink()
        let log = Log(level: .info, sink: lines) { UnixTime(milliseconds: 0) }
        let journal = CallJournal(folder: folder.path, log: .silent)
        journal.note(.begun(Self.call(1, [Self.branch()])))
        journal.flush(now: now)
        let other = try JournalKey([UInt8](repeating: 8, count: JournalKey.byteCount))
        for isFirst in [false, true] {
            let found = CallJournal(folder: folder.path, key: other, isFirstSealed: isFirst, log: log)
            #expect(found.calls(after: 0, limit: 9) == [])
        }
        #expect(lines.lines.count == 2)
        #expect(CallJournal(folder: folder.path, log: .silent).calls(after: 0, limit: 9).count == 1)
    }

    /// Returns the bytes of the entry in the form of old versions, without an authentication code.
    private static func unsealed(_ change: CallChange, _ serial: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        change.write(serial, to: &bytes, .forTests)
        let content = Array(bytes[32...])
        let sum = content.journalChecksum(of: 0..<content.count)
        return [UInt32(content.count), sum].flatMap { number in
            (0..<4).map { UInt8(truncatingIfNeeded: number >> UInt32(24 - 8 * $0)) }
        } + content
    }

    @Test func `the first run with seals reads the entries of the one before, and no later run does`() throws {
        let folder = try TemporaryFolder()
        let file = try AppendedFile(creating: "\(folder.path)/3.calls")
        let calls = [Self.call(1, [Self.branch()]), Self.call(2, [Self.branch()])]
        try file.append(Self.unsealed(.begun(calls[0]), 5) + Self.unsealed(.begun(calls[1]), 6))
        #expect(CallJournal(folder: folder.path, log: .silent).calls(after: 0, limit: 9) == [])
        let first = CallJournal(folder: folder.path, key: .forTests, isFirstSealed: true, log: .silent)
        #expect(first.calls(after: 0, limit: 9) == calls)
        #expect(CallJournal(folder: folder.path, log: .silent).calls(after: 0, limit: 9) == calls)
    }

    @Test func `files that others can write are not read, and do not block`() throws {
        let folder = try TemporaryFolder()
        let journal = CallJournal(folder: folder.path, log: .silent)
        journal.note(.begun(Self.call(1, [Self.branch()])))
        journal.flush(now: now)
        #expect(unsafe mkfifo("\(folder.path)/2.calls", 0o600) == 0)
        #expect(throws: AppendedFile.Failure.self) { try AppendedFile.contents(of: "\(folder.path)/2.calls") }
        _ = try AppendedFile(creating: "\(folder.path)/3.calls")
        #expect(unsafe truncate("\(folder.path)/3.calls", 1 << 40) == 0)
        #expect(throws: AppendedFile.Failure.self) { try AppendedFile.contents(of: "\(folder.path)/3.calls") }
        _ = try AppendedFile(creating: "\(folder.path)/4.calls")
        #expect(unsafe chmod("\(folder.path)/4.calls", 0o622) == 0)
        #expect(throws: AppendedFile.Failure.self) { try AppendedFile.contents(of: "\(folder.path)/4.calls") }
        #expect(CallJournal(folder: folder.path, log: .silent).calls(after: 0, limit: 9).count == 1)
    }

    @Test(arguments: [(0o700, true), (0o755, true), (0o770, false), (0o702, false)] as [(mode_t, Bool)])
    func `a folder that others may write is refused`(mode: mode_t, isFine: Bool) throws {
        let folder = try TemporaryFolder()
        #expect(unsafe chmod(folder.path, mode) == 0)
        defer { _ = unsafe chmod(folder.path, 0o700) }
        if isFine {
            try AppendedFile.checkFolder(folder.path)
        } else {
            #expect(throws: AppendedFile.Failure.self) { try AppendedFile.checkFolder(folder.path) }
        }
    }

    /// Reads a change from the bytes, if their authentication code is valid.
    private static func read(_ content: [UInt8]) -> CallChange? {
        var bytes = [UInt8](repeating: 0, count: 4 + JournalKey.sealCount) + content
        bytes.sealJournalEntry(at: 0, .forTests)
        return JournalEntry(in: bytes, at: 0, .forTests)?.change(in: bytes)
    }

    /// Returns the bytes of a change without their authentication code.
    private static func content(of change: CallChange) -> [UInt8] {
        var bytes: [UInt8] = []
        change.write(1, to: &bytes, .forTests)
        return Array(bytes[(4 + JournalKey.sealCount)...])
    }

    @Test func `impossible values are refused`() {
        let branch = Self.branch(.called, end: .failed(486))
        let written = Self.content(of: .branch(call: 1, number: 0, branch))
        #expect(Self.read(written) != nil)
        // An entry has these fields: serial number, call, kind, branch number, stage, flags, device, code, end, status,
        // former branches.
        let kind = 16, stage = 19, device = 21, end = 45, former = 48
        #expect(written[kind] == 2 && written[stage] == 2 && written[device + 7] == 9 && written[end] == 2)
        for (place, value) in [
            (kind, 0), (kind, 6), (stage, 0), (stage, 5), (stage, 255), (end, 10), (end, 255), (former, 1),
        ] {
            var other = written
            other[place] = UInt8(value)
            #expect(Self.read(other) == nil, "\(value) at \(place)")
        }
        // The stages 1 to 4 exist.
        for value in 1...4 as ClosedRange<UInt8> {
            var other = written
            other[stage] = value
            #expect(Self.read(other) != nil, "stage \(value)")
        }
        #expect(Self.read(written + [0]) == nil)
        for count in 1..<written.count { #expect(Self.read(Array(written[..<count])) == nil, "\(count) bytes") }
        // The test changes byte 26 to a transport that does not exist, and byte 44 to a length beyond the end of the
        // entry.
        let begun = Self.content(of: .begun(Self.call(1, [])))
        #expect(Self.read(begun) != nil)
        for (place, value) in [(26, 99), (44, 255)] as [(Int, UInt8)] {
            var other = begun
            other[place] = value
            #expect(Self.read(other) == nil, "\(value) at \(place)")
        }
    }

    /// The journal reads no values behind an invalid authentication code, so the test computes the code of the damaged
    /// values.
    @Test func `behind a valid seal, only values that can be written again are accepted`() {
        var random = SeededGenerator(seed: 7)
        let begun = Self.content(of: .begun(Self.call(1, [Self.branch(.called, sent: Self.sent)])))
        var refused = 0
        for _ in 0..<20_000 {
            var content = begun
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                content[Int.random(in: 16..<content.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            guard let change = Self.read(content) else {
                refused += 1
                continue
            }
            let again = Self.content(of: change)
            #expect(Self.read(again).map(Self.content) == again)
        }
        #expect(refused > 5000 && refused < 20_000)
    }

    @Test func `while the disk fails calls continue, and later ones are kept again`() throws {
        let folder = try TemporaryFolder()
        let place = "\(folder.path)/there"
        let log = MemoryLogSink()
        let journal = CallJournal(
            folder: "\(place)/calls", log: Log(level: .info, sink: log) { UnixTime(milliseconds: 0) })
        journal.note(.begun(Self.call(1, [Self.branch()])))
        journal.flush(now: now)
        #expect(journal.failures == 1)
        journal.note(.begun(Self.call(2, [Self.branch()])))
        journal.note(.over(call: 1))
        // After a failed write, the journal does not retry immediately.
        journal.flush(now: now)
        #expect(journal.failures == 1)
        try AppendedFile.makeFolder(place)
        journal.flush(now: now + .seconds(2))
        #expect(
            CallJournal(folder: "\(place)/calls", log: .silent).calls(after: 0, limit: 9)
                == [Self.call(2, [Self.branch()])])
        #expect(log.lines.count == 2)
    }

    @Test func `of too much that cannot be written the ends of calls are kept`() throws {
        let folder = try TemporaryFolder()
        var settings = CallJournalSettings()
        settings.pendingLimit = 20_000
        let place = "\(folder.path)/there"
        try AppendedFile.makeFolder(place)
        let journal = CallJournal(folder: place, settings: settings, log: .silent)
        journal.note(.begun(Self.call(1, [Self.branch()])))
        journal.note(.begun(Self.call(2, [Self.branch()])))
        journal.flush(now: now)
        // The next run of the daemon cannot create its journal file, because another file has the name.
        let next = CallJournal(folder: place, settings: settings, log: .silent)
        let inTheWay = try AppendedFile(creating: "\(place)/2.calls")
        next.note(.over(call: 1))
        for id in 3...400 as ClosedRange<UInt64> {
            next.note(.begun(Self.call(id, [Self.branch()])))
            next.flush(now: now)
        }
        withExtendedLifetime(inTheWay) { AppendedFile.remove("\(place)/2.calls") }
        next.note(.begun(Self.call(401, [Self.branch()])))
        next.flush(now: now + .seconds(2))
        let found = CallJournal(folder: place, log: .silent).calls(after: 0, limit: 999).map(\.id)
        #expect(found.contains(2) && found.contains(401) && !found.contains(1) && !found.contains(3))
    }
}

extension JournalKey {
    /// A key that authenticates the journals of tests that have no store.
    static var forTests: JournalKey {
        do {
            return try JournalKey([UInt8](repeating: 7, count: byteCount))
        } catch {
            preconditionFailure("no key: \(error)")
        }
    }
}

extension CallJournal {
    convenience init(folder: String, settings: CallJournalSettings = CallJournalSettings(), log: Log) {
        self.init(folder: folder, key: .forTests, settings: settings, log: log)
    }
}

private let now = Instant(nanoseconds: 0)
