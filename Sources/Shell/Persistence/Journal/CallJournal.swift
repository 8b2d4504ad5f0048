import ProxyCore
import Storage
import Telemetry
import Timekeeping

/// Calls that wait or ring, and what became of missed calls, for the next run of the program: changes one after the other in
/// files of a folder, which are written on the loop's own thread.
///
/// So an entry is with the kernel before the message leaves that follows from it, and nobody waits for a thread or a disk to
/// sync. The end of the process takes nothing away; a power failure may take the last seconds. When a file is full, the next
/// is begun. The oldest one is removed when the store has its missed calls, and those of its calls that go on are written
/// once more at the end: together the files are never much more than twice as large as what goes on.
///
/// A failure stops no call. What could not be written is tried again, and when it is too much, only the ends of calls are
/// kept, so that no later run takes up a call that is over.
final class CallJournal {
    private let folder: String
    private let key: JournalKey
    private let log: Log
    private let settings: CallJournalSettings
    /// What is noted and not written yet, as entries.
    private var pending: [UInt8] = []
    private var current: AppendedFile?
    /// The oldest first; the last one is being written.
    private var files: [File] = []
    /// How many bytes of the files, and of what waits, each call has that goes on; and all of them.
    private var live: [UInt64: Int]
    private var liveSize: Int
    private var lastSerial: UInt64
    /// The store has been told of all missed calls up to this one: it is told of each after the turn's flush.
    private var toldSerial: UInt64
    /// The store has the missed calls up to this one.
    private var storedSerial: UInt64 = 0
    /// That missed calls are given up which the store does not have.
    private var hasWarned = false
    /// When to write again what could not be written; `nil` when all is written.
    private(set) var retryAt: Instant?
    private var failingSince: Instant?
    /// Called with a serial number, which is to come back to ``stored(_:)`` when the store has all that it was told before.
    var askStore: (UInt64) -> Void = { _ in }
    /// How often a write has failed.
    private(set) var failures: UInt64 = 0

    /// What earlier runs have left, until it is taken.
    private var found: JournalContents

    private struct File {
        let number: Int
        var size: Int
        /// The serial number of its last entry.
        var last: UInt64
    }

    /// - Parameters:
    ///   - folder: where the files are, or will be.
    ///   - key: seals what is written; what has no seal of it is not read.
    ///   - isFirstSealed: whether this is the first run that seals. Then the files of the runs before are read as they are,
    ///     and sealed; later such files are anybody's.
    ///   - settings: when files are begun and removed.
    ///   - log: for what goes wrong.
    init(
        folder: String, key: JournalKey, isFirstSealed: Bool = false,
        settings: CallJournalSettings = CallJournalSettings(), log: Log
    ) {
        self.folder = folder
        self.key = key
        self.settings = settings
        self.log = log
        found = JournalContents()
        if isFirstSealed { Self.seal(in: folder, key, log) }
        for (number, path) in Self.files(in: folder) {
            let bytes = Self.contents(of: path, log)
            let length = found.read(bytes, key)
            // What was under way at a power failure is zeros.
            if bytes[length...].contains(where: { $0 != 0 }) {
                log.error(
                    "what is kept of calls is not read to its end: it was cut, was changed, or belongs to another store",
                    [.path: .text(path), .bytes: .number(bytes.count - length)])
            }
            files.append(File(number: number, size: bytes.count, last: found.lastSerial))
        }
        live = found.sizes
        liveSize = live.values.reduce(0, +)
        lastSerial = found.lastSerial
        toldSerial = lastSerial
    }

    private static func contents(of path: String, _ log: Log) -> [UInt8] {
        do {
            return try AppendedFile.contents(of: path)
        } catch {
            log.error("what is kept of calls cannot be read", [.path: .text(path), .error: .described(error)])
            return []
        }
    }

    /// Seals what earlier versions of the program have left.
    private static func seal(in folder: String, _ key: JournalKey, _ log: Log) {
        for (number, path) in files(in: folder) {
            let bytes = contents(of: path, log)
            var sealed: [UInt8] = []
            var place = 0
            while let entry = JournalEntry(unsealedIn: bytes, at: place) {
                entry.seal(from: bytes, to: &sealed, key)
                place = entry.range.upperBound
            }
            guard !sealed.isEmpty else { continue }
            do throws(AppendedFile.Failure) {
                let other = "\(folder)/\(number).sealed"
                AppendedFile.remove(other)
                try AppendedFile(creating: other).append(sealed)
                try AppendedFile.move(other, to: path)
            } catch {
                log.error("calls of the version before are lost", [.path: .text(path), .error: .described(error)])
            }
        }
    }

    private static func files(in folder: String) -> [(number: Int, path: String)] {
        AppendedFile.names(in: folder).compactMap { name in
            guard name.hasSuffix(suffix), let number = Int(name.dropLast(suffix.count)) else { return nil }
            return (number, "\(folder)/\(name)")
        }.sorted { $0.number < $1.number }
    }

    private static let suffix = ".calls"

    private func path(of number: Int) -> String { "\(folder)/\(number)\(Self.suffix)" }

    /// Bytes in all files.
    var size: Int { files.reduce(0) { $0 + $1.size } }

    // MARK: The start

    /// To be asked once.
    ///
    /// - Parameter serial: the last one that ``askStore`` has left in the store.
    /// - Returns: the changes of missed calls that the store does not have yet, in their order.
    func missedCalls(after serial: UInt64) -> [StoredBucketChange] {
        storedSerial = serial
        // Somebody has removed the files, and the numbers begin anew.
        lastSerial = max(lastSerial, serial)
        toldSerial = lastSerial
        defer { found.missed = [] }
        return found.missed.filter { $0.serial > serial }.map(\.change)
    }

    /// The calls of earlier runs that follow, in the order of their numbers; empty when there are no more.
    func calls(after id: UInt64, limit: Int) -> [StoredCall] { found.calls(after: id, limit: limit) }

    // MARK: What happens

    func note(_ change: CallChange) {
        let call = change.call
        switch change {
        case .begun, .missed: break
        case .branch, .final, .over: if live[call] == nil { return }
        }
        let start = pending.count
        lastSerial &+= 1
        change.write(lastSerial, to: &pending, key)
        switch change {
        case .begun, .branch, .final:
            live[call, default: 0] += pending.count - start
            liveSize += pending.count - start
        case .over: liveSize -= live.removeValue(forKey: call) ?? 0
        case .missed: break
        }
    }

    /// Writes what was noted. To be called before anything leaves that follows from it.
    func flush(now: Instant) {
        defer { toldSerial = lastSerial }
        guard !pending.isEmpty else {
            retryAt = nil
            return
        }
        if let retryAt, now < retryAt {
            if pending.count > settings.pendingLimit { keepEndsOnly() }
            return
        }
        do throws(AppendedFile.Failure) {
            try write()
            if let since = failingSince {
                log.notice("calls are kept again", [.path: .text(folder), .duration: .duration(now - since)])
                (failingSince, retryAt) = (nil, nil)
            }
        } catch {
            failures &+= 1
            if failingSince == nil {
                failingSince = now
                log.error(
                    "calls cannot be written and would not survive a crash",
                    [.path: .text(folder), .error: .described(error)])
            }
            retryAt = now + settings.retryInterval
        }
    }

    private func write() throws(AppendedFile.Failure) {
        if current == nil || (files.last?.size ?? 0) >= settings.fileSize {
            try beginFile()
            clean()
        }
        try append()
    }

    private func append() throws(AppendedFile.Failure) {
        guard let current else { return }
        try current.append(pending)
        pending.removeAll(keepingCapacity: true)
        guard let last = files.indices.last else { return }
        files[last].size = current.size
        files[last].last = lastSerial
    }

    private func beginFile() throws(AppendedFile.Failure) {
        try AppendedFile.makeFolder(folder)
        let number = (files.last?.number ?? 0) &+ 1
        current = try AppendedFile(creating: path(of: number))
        files.append(File(number: number, size: 0, last: lastSerial))
        askStore(toldSerial)
    }

    /// More than this waits to be written: the calls that it is about would not be whole any more.
    private func keepEndsOnly() {
        let all = pending
        pending = []
        var place = 0
        while let entry = JournalEntry(in: all, at: place, key) {
            if entry.kind == .over { pending += all[entry.range] }
            place = entry.range.upperBound
        }
        // It would be taken for room again and again.
        if pending.count > settings.pendingLimit / 2 { pending = [] }
        // Rows of missed calls are among it: what stands in the files before must not be taken for newer than the store.
        askStore(toldSerial)
        log.error("what was to be kept of calls is given up", [.path: .text(folder), .count: .number(all.count)])
    }

    // MARK: Room

    /// The store has all that it was told before it was asked with this number.
    func stored(_ serial: UInt64) {
        storedSerial = max(storedSerial, serial)
        hasWarned = false
    }

    /// Once for each time that the store is away.
    private func warnOfUnstored() {
        guard !hasWarned else { return }
        hasWarned = true
        log.warning("missed calls that the store does not take would not survive a crash", [.path: .text(folder)])
    }

    /// Removes the oldest files while more than half of all is of no use. What they have of calls that go on is noted again.
    /// Their missed calls may be nowhere else while the store takes none; there is an end to that as well.
    private func clean() {
        for _ in 0..<settings.filesAtOnce {
            guard let oldest = files.first, files.count > 1 else { return }
            let excess = size - 2 * liveSize
            if oldest.last <= storedSerial {
                guard excess > settings.slack || isOneOfMany(oldest) else { return }
            } else {
                guard excess > settings.unstoredLimit else { return }
                warnOfUnstored()
            }
            let path = path(of: oldest.number)
            if let bytes = try? AppendedFile.contents(of: path) {
                var place = 0
                while let entry = JournalEntry(in: bytes, at: place, key) {
                    // An end is that of a call before, which had the same number.
                    if entry.kind != .over, live[entry.call] != nil { pending += bytes[entry.range] }
                    place = entry.range.upperBound
                }
                // The file goes when what it had stands in another one.
                guard (try? append()) != nil else { return }
            }
            AppendedFile.remove(path)
            files.removeFirst()
        }
    }

    /// Each run begins a file, so that runs that end at once leave many small ones.
    private func isOneOfMany(_ file: File) -> Bool {
        files.count > settings.manyFiles && file.size < settings.fileSize / 8
    }

    /// The last call. When the store has all and no call goes on, nothing is left.
    func close(isStored: Bool, now: Instant) {
        retryAt = nil
        flush(now: now)
        guard isStored, live.isEmpty, pending.isEmpty else { return }
        current = nil
        for file in files { AppendedFile.remove(path(of: file.number)) }
        files = []
    }
}

/// Not for operators: the defaults suit a laptop and a server.
struct CallJournalSettings: Hashable, Sendable {
    /// From how many bytes on the next file is begun.
    var fileSize = 1 << 20
    /// How many bytes may be of no use besides as many as are of use.
    var slack = 4 << 20
    /// The same while the store does not have their missed calls.
    var unstoredLimit = 256 << 20
    /// How many files are cleaned at once.
    var filesAtOnce = 2
    /// From how many files on small ones are cleaned whatever is of use in them.
    var manyFiles = 16
    /// How many bytes may wait while they cannot be written.
    var pendingLimit = 8 << 20
    var retryInterval: Duration = .seconds(1)

    init() {}
}
