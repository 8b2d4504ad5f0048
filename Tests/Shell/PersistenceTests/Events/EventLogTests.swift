import Foundation
@testable import Persistence
import Storage
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// The log of events in a temporary folder, with a clock of its own.
private final class EventLogBench {
    let folder: TemporaryFolder
    let sink = MemoryLogSink()
    private(set) var log: EventLog
    var now = Moment(instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(milliseconds: 1_790_000_000_000))
    private let limits: EventLogLimits

    init(capacity: Int = 1 << 20, hasDomains: Bool = false, pending: Int = 1 << 20) throws {
        folder = try TemporaryFolder()
        var limits = EventLogLimits(capacity: capacity, hasDomains: hasDomains)
        limits.pending = pending
        self.limits = limits
        log = try Self.open(folder, limits, sink)
    }

    private static func open(
        _ folder: TemporaryFolder, _ limits: EventLogLimits, _ sink: MemoryLogSink
    ) throws -> EventLog {
        let log = try EventLog(
            folder: folder.file("events"), limits: limits,
            log: Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) })
        log.describe = { loss, id, _ in
            Array("{\"id\":\"\(id)\",\"lost\":\"\(loss.reason.rawValue) \(loss.count)\"}".utf8)
        }
        return log
    }

    /// Opens the files again, as the next run of the daemon does after a kill.
    func restart() throws { log = try Self.open(folder, limits, sink) }

    /// Appends events, each in a turn of its own.
    func append(_ words: [String], of user: UInt64 = 1, domain: UInt64 = 1, size: Int = 0) {
        for word in words {
            log.append(EventOwner(user: user, domain: domain), now: now) { id in
                Array("{\"id\":\"\(id)\",\"word\":\"\(word)\"\(String(repeating: " ", count: size))}".utf8)
            }
            log.flush(now: now.instant)
        }
    }

    func pass(_ time: Duration) { now = Moment(instant: now.instant + time, date: now.date + time) }

    /// Takes all events, as a receiver does that is always there.
    func takeAll(count: Int = 256, bytes: Int = 256 << 10) -> [String] {
        var taken: [String] = []
        while let batch = log.nextBatch(count: count, bytes: bytes) {
            taken += batch.events.map(word)
            log.delivered(batch)
        }
        return taken
    }

    func word(_ event: [UInt8]) -> String {
        let text = String(decoding: event, as: UTF8.self)
        let key = text.contains("\"lost\"") ? "\"lost\":\"" : "\"word\":\""
        guard let start = text.range(of: key)?.upperBound else { return text }
        return String(text[start...].prefix { $0 != "\"" })
    }

    var files: [String] {
        AppendedFile.names(in: folder.file("events")).filter { $0.hasSuffix(".events") }.sorted()
    }

    func dropped(_ counter: Counter) -> UInt64 { log.figures[counter] }
}

private let words = (1...10).map { "e\($0)" }

@Suite("The log of events")
struct EventLogTests {
    @Test func `events come out in their order, in batches, and once`() throws {
        let bench = try EventLogBench()
        bench.append(words)
        #expect(bench.log.waiting == 10)
        let batch = try #require(bench.log.nextBatch(count: 4, bytes: 1 << 18))
        #expect(batch.events.map(bench.word) == Array(words[..<4]))
        bench.log.delivered(batch)
        #expect(bench.log.waiting == 6)
        #expect(bench.takeAll(count: 4) == Array(words[4...]))
        #expect(bench.log.waiting == 0 && bench.log.nextBatch(count: 4, bytes: 1 << 18) == nil)
        bench.append(["late"])
        #expect(bench.takeAll() == ["late"])
    }

    @Test func `a batch has a maximum size, and at least one event`() throws {
        let bench = try EventLogBench()
        bench.append(words, size: 900)
        let batch = try #require(bench.log.nextBatch(count: 256, bytes: 2000))
        #expect(batch.events.count == 2)
        let small = try #require(bench.log.nextBatch(count: 256, bytes: 10))
        #expect(small.events.count == 1)
    }

    @Test(arguments: 0...10)
    func `a kill loses no event`(delivered: Int) throws {
        let bench = try EventLogBench()
        bench.append(words)
        if delivered > 0 {
            let batch = try #require(bench.log.nextBatch(count: delivered, bytes: 1 << 18))
            bench.log.delivered(batch)
        }
        try bench.restart()
        #expect(bench.log.waiting == 10 - delivered)
        bench.append(["after"])
        #expect(bench.takeAll() == Array(words[delivered...]) + ["after"])
    }

    @Test func `a kill before the position is written repeats events`() throws {
        let bench = try EventLogBench()
        bench.append(words)
        _ = bench.log.nextBatch(count: 4, bytes: 1 << 18)
        try bench.restart()
        #expect(bench.takeAll() == words)
    }

    @Test func `numbers rise over restarts, without files, and if the clock goes back`() throws {
        let bench = try EventLogBench()
        func last() throws -> UInt64 {
            bench.append(["a", "b"])
            let batch = try #require(bench.log.nextBatch(count: 9, bytes: 1 << 18))
            bench.log.delivered(batch)
            #expect(batch.ids.lowerBound < batch.ids.upperBound)
            return batch.ids.upperBound
        }
        let first = try last()
        #expect(first >= UInt64(bench.now.date.milliseconds) * 1000)
        try bench.restart()
        let second = try last()
        #expect(second > first)
        bench.pass(.seconds(-3600))
        try bench.restart()
        let third = try last()
        #expect(third > second)
        bench.pass(.seconds(7200))
        try FileManager.default.removeItem(atPath: bench.folder.file("events"))
        try bench.restart()
        #expect(try last() > third)
    }

    @Test func `a file whose events are delivered is removed`() throws {
        let bench = try EventLogBench(capacity: 64 << 10)
        for _ in 0..<40 { bench.append(words, size: 40) }
        #expect(bench.files.count > 3)
        _ = bench.takeAll()
        bench.append(["last"])
        #expect(bench.files.count == 1)
        #expect(bench.log.size < 16 << 10)
        try bench.restart()
        #expect(bench.takeAll() == ["last"])
    }

    @Test func `the age is that of the oldest event`() throws {
        let bench = try EventLogBench()
        #expect(bench.log.age(now: bench.now.date) == nil)
        bench.append(["a"])
        bench.pass(.seconds(90))
        bench.append(["b"])
        #expect(bench.log.age(now: bench.now.date) == .seconds(90))
        _ = bench.takeAll()
        #expect(bench.log.age(now: bench.now.date) == nil)
    }

    // MARK: A full log

    @Test func `a full log drops the oldest events, and tells the receiver how many`() throws {
        let bench = try EventLogBench(capacity: 64 << 10)
        // Each event has an owner of its own, so that no share is used up.
        for number in 0..<1000 { bench.append(["n\(number)"], of: UInt64(number), size: 100) }
        let dropped = bench.dropped(.eventDroppedFull)
        #expect(dropped > 0 && bench.dropped(.eventDroppedShare) == 0)
        #expect(bench.log.size <= 64 << 10)
        bench.pass(.seconds(10))
        bench.append(["last"])
        let taken = bench.takeAll()
        #expect(taken.last == "last" && !taken.contains("n0"))
        let told = taken.filter { $0.hasPrefix("full ") }.compactMap { UInt64($0.dropFirst(5)) }.reduce(0, +)
        // The receiver learns of each loss, although the event that told the first losses was dropped too.
        #expect(told == dropped && told > 600)
        #expect(taken.filter { $0.hasPrefix("n") }.count + Int(dropped) == 1000)
        #expect(bench.sink.lines.count { $0.contains("the event log is full") } == 1)
    }

    @Test func `events in flight are not dropped`() throws {
        let bench = try EventLogBench(capacity: 64 << 10)
        bench.append(words)
        let batch = try #require(bench.log.nextBatch(count: 10, bytes: 1 << 18))
        for number in 0..<1000 { bench.append(["n\(number)"], of: UInt64(number), size: 100) }
        bench.log.delivered(batch)
        let taken = bench.takeAll().filter { $0.hasPrefix("n") }
        #expect(taken.count + Int(bench.dropped(.eventDroppedFull)) == 1000)
        #expect(taken == taken.sorted { Int($0.dropFirst()) ?? 0 < Int($1.dropFirst()) ?? 0 })
    }

    @Test func `a storm of one user leaves the events of others in the log`() throws {
        let bench = try EventLogBench(capacity: 128 << 10)
        bench.append(["first"], of: 7)
        for number in 0..<5000 { bench.append(["s\(number)"], of: 1, size: 100) }
        #expect(bench.dropped(.eventDroppedShare) > 0 && bench.dropped(.eventDroppedFull) == 0)
        bench.append(["last"], of: 7)
        let taken = bench.takeAll()
        #expect(taken.first == "first" && taken.contains("last"))
        // After the storm's events are gone, the user has its share again.
        bench.append(["again"], of: 1)
        #expect(bench.takeAll().last == "again")
    }

    // MARK: Faults

    @Test func `a disk that takes nothing stops nobody, and the events are written later`() throws {
        let bench = try EventLogBench(pending: 4096)
        bench.append(["a"])
        _ = bench.takeAll()
        try bench.restart()
        // A file in place of the folder refuses each new file.
        let path = bench.folder.file("events")
        try FileManager.default.removeItem(atPath: path)
        try bench.folder.write([], to: "events")
        bench.append(["b"])
        for number in 0..<100 { bench.append(["n\(number)"]) }
        #expect(bench.log.retryAt != nil && bench.dropped(.eventDroppedDisk) > 0)
        #expect(bench.sink.lines.count { $0.contains("events cannot be written") } == 1)
        #expect(bench.log.nextBatch(count: 9, bytes: 1 << 18) == nil)
        try FileManager.default.removeItem(atPath: path)
        bench.pass(.seconds(11))
        bench.append([])
        bench.log.flush(now: bench.now.instant)
        bench.append(["c"])
        let taken = bench.takeAll()
        #expect(taken.first == "b" && taken.last == "c")
        #expect(taken.filter { $0.hasPrefix("disk ") } == ["disk \(bench.dropped(.eventDroppedDisk))"])
        #expect(bench.sink.lines.contains { $0.contains("events can be written again") })
    }

    @Test func `damaged bytes cost only the events that they hit`() throws {
        let bench = try EventLogBench()
        bench.append(words)
        let path = bench.folder.file("events/") + bench.files[0]
        var bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
        let line = bytes.count / 10
        bytes[3 * line + 100 - 40] ^= 1
        bytes += [0, 0, 0, 0]
        try Data(bytes).write(to: URL(filePath: path))
        try bench.restart()
        let taken = bench.takeAll()
        #expect(taken.count == 9 && Set(taken).isSubset(of: words))
        #expect(bench.sink.lines.count { $0.contains("an event is lost") } == 1)
        #expect(bench.dropped(.eventDroppedDamage) == 1)
    }

    @Test func `damage that comes after the start is told once, with the number of lost events`() throws {
        let bench = try EventLogBench()
        bench.append(words)
        let path = bench.folder.file("events/") + bench.files[0]
        var bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
        let line = bytes.count / 10
        for place in [2, 3, 7] { bytes[place * line + 60] ^= 1 }
        try Data(bytes).write(to: URL(filePath: path))
        #expect(bench.takeAll().count == 7)
        #expect(bench.dropped(.eventDroppedDamage) == 3 && bench.log.waiting == 0)
        #expect(bench.sink.lines.count { $0.contains("events are lost") } == 1)
        bench.append(["after"])
        #expect(bench.takeAll() == ["damage 3", "after"])
    }

    /// Lets seconds pass until the log writes its file to the disk: the thread of another log can still be busy.
    private func sync(_ bench: EventLogBench, beyond id: UInt64) {
        while bench.log.syncedTo <= id {
            bench.pass(.seconds(1))
            bench.log.flush(now: bench.now.instant)
            sched_yield()
        }
    }

    @Test(.timeLimit(.minutes(5))) func `written events go to the disk once a second`() throws {
        let bench = try EventLogBench()
        bench.append(["a"])
        sync(bench, beyond: 0)
        let first = bench.log.syncedTo
        bench.append(["b"])
        #expect(bench.log.syncedTo == first)
        sync(bench, beyond: first)
    }

    @Test func `a damaged position repeats all events`() throws {
        let bench = try EventLogBench()
        bench.append(words)
        let batch = try #require(bench.log.nextBatch(count: 4, bytes: 1 << 18))
        bench.log.delivered(batch)
        try bench.folder.write([0, 0, 0], to: "events/delivered")
        try bench.restart()
        #expect(bench.takeAll() == words)
    }

    @Test func `a folder that others can write is refused`() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("events")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: path)
        #expect(throws: EventLogError.self) {
            _ = try EventLog(
                folder: path, limits: EventLogLimits(capacity: 1 << 20, hasDomains: false),
                log: Log(level: .debug, sink: MemoryLogSink()) { UnixTime(milliseconds: 0) })
        }
    }
}

@Suite("Lines of the event log")
struct EventLineTests {
    private static let owner = EventOwner(user: .max, domain: 5)

    private static func line(_ json: String = "{\"a\":1}", id: UInt64 = 1_790_000_000_000_000) -> [UInt8] {
        var bytes: [UInt8] = []
        EventLine.write(id, owner, Array(json.utf8), to: &bytes)
        return bytes
    }

    @Test(arguments: [0, 1, 1_790_000_000_000_000, UInt64.max])
    func `a line is read as it was written`(id: UInt64) throws {
        let bytes = Self.line(id: id) + Self.line(id: 3)
        let line = try #require(EventLine(in: bytes, at: 0))
        #expect(line.id == id && line.owner == Self.owner)
        #expect(String(decoding: bytes[line.json], as: UTF8.self) == "{\"a\":1}")
        #expect(try #require(EventLine(in: bytes, at: line.end)).id == 3)
    }

    @Test func `a changed or shortened line is refused`() {
        let bytes = Self.line()
        for place in bytes.indices {
            var changed = bytes
            changed[place] ^= 1
            #expect(EventLine(in: changed, at: 0) == nil, "\(place)")
            #expect(EventLine(in: Array(bytes[..<place]), at: 0) == nil, "\(place)")
        }
    }

    @Test func `bytes without a line end are refused`() {
        #expect(EventLine(in: [UInt8](repeating: 0x30, count: 200_000), at: 0) == nil)
        #expect(EventLine(in: [], at: 0) == nil)
    }
}

@Suite("Shares of the event log")
struct EventSharesTests {
    private static func owner(_ user: UInt64, _ domain: UInt64 = 1) -> EventOwner {
        EventOwner(user: user, domain: domain)
    }

    @Test func `half of the log belongs to anybody`() {
        var shares = EventShares(capacity: 6400, hasDomains: false)
        for _ in 0..<32 {
            #expect(!shares.refuses(100, of: Self.owner(1)))
            shares.add(100, of: Self.owner(1))
        }
        #expect(shares.refuses(100, of: Self.owner(1)))
        #expect(!shares.refuses(100, of: Self.owner(2)))
        // The daemon's own events are never refused.
        #expect(!shares.refuses(6400, of: .daemon))
    }

    @Test func `a user has a sixteenth, and less when the log is nearly full`() {
        var shares = EventShares(capacity: 6400, hasDomains: false)
        shares.add(3200, of: Self.owner(1))
        for _ in 0..<4 { shares.add(100, of: Self.owner(2)) }
        #expect(shares.refuses(100, of: Self.owner(2)))
        shares.add(1200, of: Self.owner(1))
        #expect(!shares.refuses(100, of: Self.owner(3)))
        shares.add(100, of: Self.owner(3))
        #expect(shares.refuses(100, of: Self.owner(3)))
    }

    @Test func `a domain leaves room for the others`() {
        var shares = EventShares(capacity: 64_000, hasDomains: true)
        var user: UInt64 = 0
        func fill(_ domain: UInt64) -> Int {
            var count = 0
            for _ in 0..<10_000 {
                user += 1
                guard !shares.refuses(100, of: Self.owner(user, domain)) else { return count }
                shares.add(100, of: Self.owner(user, domain))
                count += 1
            }
            return count
        }
        #expect(fill(1) == 480)
        #expect(fill(2) > 100)
        #expect(fill(3) > 50)
        #expect(fill(1) == 0)
    }

    @Test func `a storm of one user leaves room for the other users of the domain`() {
        var shares = EventShares(capacity: 64_000, hasDomains: true)
        while !shares.refuses(100, of: Self.owner(1)) { shares.add(100, of: Self.owner(1)) }
        #expect(shares.total == 32_000)
        #expect(!shares.refuses(100, of: Self.owner(2)))
    }

    @Test func `removed events give their share back`() {
        var shares = EventShares(capacity: 6400, hasDomains: true)
        shares.add(3200, of: Self.owner(1))
        shares.add(100, of: Self.owner(1, 2))
        shares.remove([Self.owner(1): 3200])
        #expect(shares.total == 100 && !shares.refuses(100, of: Self.owner(1)))
    }
}
