import ProxyCore
import Storage
import Telemetry
import Timekeeping

/// The journal of calls that wait or ring and of changes to missed calls, for the next run of the program. Changes are
/// appended to files in a folder, on the loop's own thread.
///
/// Thus the kernel has an entry before the message leaves that depends on it, and nothing waits for a thread or a sync.
/// Entries survive the end of the process. A power failure can lose the last seconds. When a file is full, the next one
/// is begun. The oldest file is removed after the store has its missed calls; the entries of its active calls are first
/// written again to the last file. All files together are never much larger than twice the entries in use.
///
/// A failure stops no call. Entries that cannot be written are retried. When too many wait, only the ends of calls are
/// kept, so that no later run resumes a call that is over.
final class CallJournal {
    private let folder: String
    private let key: JournalKey
    private let log: Log
    private let settings: CallJournalSettings
    /// Entries that are not written yet.
    private var pending: [UInt8] = []
    private var current: AppendedFile?
    /// The files, oldest first. The last one is being written.
    private var files: [File] = []
    /// How many bytes of the files and of waiting entries belong to each active call, and to all of them.
    private var live: [UInt64: Int]
    private var liveSize: Int
    private var lastSerial: UInt64
    /// The store was notified of all missed calls up to this number. It is notified of each after the turn's flush.
    private var toldSerial: UInt64
    /// The store has persisted the missed calls up to this number.
    private var storedSerial: UInt64 = 0
    /// Whether a warning was logged that missed calls are dropped before the store has them.
    private var hasWarned = false
    /// When to retry failed writes; `nil` if everything is written.
    private(set) var retryAt: Instant?
    private var failingSince: Instant?
    /// Called with a serial number. Pass it back to ``stored(_:)`` when the store has persisted everything that it got
    /// before.
    var askStore: (UInt64) -> Void = { _ in }
    /// How many writes have failed.
    private(set) var failures: UInt64 = 0

    /// The entries of earlier runs, until they are taken.
    private var found: JournalContents

    private struct File {
        let number: Int
        var size: Int
        /// The serial number of its last entry.
        var last: UInt64
    }

    /// - Parameters:
    ///   - folder: the folder of the files; created if necessary.
    ///   - key: seals entries. Entries without a seal of this key are not read.
    ///   - isFirstSealed: whether this is the first run that seals. Then the files of earlier runs are read without
    ///     seals,
    ///     and sealed; later such files are anybody's.
    ///   - settings: when files are begun and removed.
    ///   - log: receives failures.
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
            // Bytes that were being written at a power failure are zeros.
            if bytes[length...].contains(where: { $0 != 0 }) {
                log.error(
                    "the call journal is not read to its end: it was cut, was changed, or belongs to another store",
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
            log.error("the call journal cannot be read", [.path: .text(path), .error: .described(error)])
            return []
        }
    }

    /// Seals the files of earlier versions of the program.
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
                log.error("calls of the previous version are lost", [.path: .text(path), .error: .described(error)])
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

    /// The size of all files in bytes.
    var size: Int { files.reduce(0) { $0 + $1.size } }

    // MARK: The start

    /// Called once.
    ///
    /// - Parameter serial: the last number that ``askStore`` persisted in the store.
    /// - Returns: the changes of missed calls that the store does not have yet, in their order.
    func missedCalls(after serial: UInt64) -> [StoredBucketChange] {
        storedSerial = serial
        // Somebody removed the files. The numbers start after those in the store.
        lastSerial = max(lastSerial, serial)
        toldSerial = lastSerial
        defer { found.missed = [] }
        return found.missed.filter { $0.serial > serial }.map(\.change)
    }

    /// The next calls of earlier runs, in the order of their numbers; empty at the end.
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

    /// Writes waiting entries. Call before sending anything that depends on them.
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
                log.notice(
                    "the call journal is written again", [.path: .text(folder), .duration: .duration(now - since)])
                (failingSince, retryAt) = (nil, nil)
            }
        } catch {
            failures &+= 1
            if failingSince == nil {
                failingSince = now
                log.error(
                    "the call journal cannot be written: calls would not survive a crash",
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

    /// Too many entries wait. The calls that they belong to would be incomplete, so only the ends of calls are kept.
    private func keepEndsOnly() {
        let all = pending
        pending = []
        var place = 0
        while let entry = JournalEntry(in: all, at: place, key) {
            if entry.kind == .over { pending += all[entry.range] }
            place = entry.range.upperBound
        }
        // Otherwise room would be made for it again and again.
        if pending.count > settings.pendingLimit / 2 { pending = [] }
        // Dropped entries include rows of missed calls. Older files must not be taken for newer than the store.
        askStore(toldSerial)
        log.error("entries of the call journal are dropped", [.path: .text(folder), .count: .number(all.count)])
    }

    // MARK: Room

    /// The store has persisted everything that it got before this number.
    func stored(_ serial: UInt64) {
        storedSerial = max(storedSerial, serial)
        hasWarned = false
    }

    /// Once for each outage of the store.
    private func warnOfUnstored() {
        guard !hasWarned else { return }
        hasWarned = true
        log.warning("missed calls that the store cannot write would not survive a crash", [.path: .text(folder)])
    }

    /// Removes the oldest files while more than half of all bytes are useless. Entries of active calls in them are
    /// written again. While the store fails, their missed calls exist only here; they are kept up to a limit.
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
                    // The end may belong to an earlier call with the same number.
                    if entry.kind != .over, live[entry.call] != nil { pending += bytes[entry.range] }
                    place = entry.range.upperBound
                }
                // The file is removed after its entries are in another one.
                guard (try? append()) != nil else { return }
            }
            AppendedFile.remove(path)
            files.removeFirst()
        }
    }

    /// Each run begins a file, so many short runs leave many small files.
    private func isOneOfMany(_ file: File) -> Bool {
        files.count > settings.manyFiles && file.size < settings.fileSize / 8
    }

    /// The last call. If the store has everything and no call is active, no file remains.
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
    /// The size in bytes at which the next file is begun.
    var fileSize = 1 << 20
    /// How many useless bytes are allowed in addition to as many useful ones.
    var slack = 4 << 20
    /// The same limit while the store does not have the files' missed calls.
    var unstoredLimit = 256 << 20
    /// How many files are cleaned at once.
    var filesAtOnce = 2
    /// The number of files from which small files are cleaned even if all their entries are useful.
    var manyFiles = 16
    /// How many bytes may wait while writes fail.
    var pendingLimit = 8 << 20
    var retryInterval: Duration = .seconds(1)

    init() {}
}
