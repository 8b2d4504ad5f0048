import Calling
import ProxyCore
import PushPlanning
import Registration
import Storage
import Telemetry
import Timekeeping

/// The journal of calls for the next run of the program: calls that wait or ring, and changes to missed calls.
///
/// The journal appends changes to files in a folder, on the loop's own thread. The engine's messages are sent only
/// after the kernel has the entries on which they depend, and no message waits for a thread or a sync. Entries survive
/// the end of the process, but a power failure can lose the entries of the last seconds.
///
/// When a file is full, the next file is begun. The oldest file is removed when the store has the file's missed calls.
/// Before the removal, the entries of the file's active calls are copied to the last file. All files together are never
/// much larger than twice the entries in use.
///
/// If a write fails, the calls continue, and the journal retries the write. If too many entries wait, the journal keeps
/// only the ends of calls, so that no later run resumes a call that has ended.
final class CallJournal {
    private let folder: String
    private let key: JournalKey
    private let log: Log
    private let settings: CallJournalSettings
    /// Encoded entries that are not yet written.
    private var pending: [UInt8] = []
    private var current: AppendedFile?
    /// The files, oldest first. New entries are written to the last file.
    private var files: [File] = []
    /// The number of bytes that belong to each active call, in files and in waiting entries, and the sum of these
    /// numbers.
    private var live: [UInt64: Int]
    private var liveSize: Int
    private var lastSerial: UInt64
    /// The serial number up to which the store was given all missed calls. The number rises with each ``flush(now:)``.
    private var toldSerial: UInt64
    /// The serial number up to which the store has persisted all missed calls.
    private var storedSerial: UInt64 = 0
    /// Whether the log already has the warning that missed calls exist only in the journal; reset when the store works
    /// again.
    private var hasWarned = false
    /// The time at which failed writes are retried; `nil` if no entry waits.
    private(set) var retryAt: Instant?
    private var failingSince: Instant?
    /// Asks the store to confirm a serial number. Pass the number to ``stored(_:)`` when the store has persisted all
    /// changes that it got before.
    var askStore: (UInt64) -> Void = { _ in }
    /// How many writes have failed.
    private(set) var failures: UInt64 = 0

    /// The entries of earlier runs, which are read once, at the start.
    private var found: JournalContents

    private struct File {
        let number: Int
        var size: Int
        /// The serial number of the file's last entry.
        var last: UInt64
    }

    /// Reads the files of earlier runs.
    ///
    /// - Parameters:
    ///   - folder: the folder of the files; created if necessary.
    ///   - key: seals entries. Entries that were not sealed with this key are not read.
    ///   - isFirstSealed: whether no earlier run had a key. If it is true, the files of earlier runs are read without
    ///     seals, and are then sealed. Later, unsealed files are not read, because anybody can have written such files.
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
            // Zeros at the end are left by a power failure during a write. Other unreadable bytes after the last entry
            // are reported.
            if bytes[length...].contains(where: { $0 != 0 }) {
                log.error(
                    "the end of the call journal is unreadable: the file was cut off or changed, or belongs to another store",
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

    /// Adds seals to the files of program versions that wrote entries without seals.
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
                log.error(
                    "calls from before the upgrade are lost: their journal file could not be sealed",
                    [.path: .text(path), .error: .described(error)])
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

    /// The missed calls of earlier runs. Call this function once, at the start.
    ///
    /// - Parameter serial: the serial number up to which the store has all missed calls.
    /// - Returns: the changes that the store does not have yet, in their order.
    func missedCalls(after serial: UInt64) -> [StoredBucketChange] {
        storedSerial = serial
        // If somebody removed the files, the serial numbers continue after the last one in the store.
        lastSerial = max(lastSerial, serial)
        toldSerial = lastSerial
        defer { found.missed = [] }
        return found.missed.filter { $0.serial > serial }.map(\.change)
    }

    /// The next calls of earlier runs, in the order of their numbers; empty at the end.
    func calls(after id: UInt64, limit: Int) -> [StoredCall] { found.calls(after: id, limit: limit) }

    // MARK: New entries

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

    /// Writes waiting entries. Call this function before a message is sent that depends on these entries.
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
                    "the call journal can be written again", [.path: .text(folder), .duration: .duration(now - since)])
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

    /// Drops waiting entries other than ends of calls, because too many wait. The calls of these entries would be
    /// incomplete in the files, so only the ends of calls are kept.
    private func keepEndsOnly() {
        let all = pending
        pending = []
        var place = 0
        while let entry = JournalEntry(in: all, at: place, key) {
            if entry.kind == .over { pending += all[entry.range] }
            place = entry.range.upperBound
        }
        // If the ends of calls alone take half of the limit, they are dropped too, because otherwise the limit would be
        // reached again soon.
        if pending.count > settings.pendingLimit / 2 { pending = [] }
        // The dropped entries include missed calls, which only the store has from now on. The store keeps this serial
        // number, so that the next run does not apply older entries over newer rows.
        askStore(toldSerial)
        log.error(
            "entries of the call journal are dropped, because its buffer in memory is full",
            [.path: .text(folder), .count: .number(all.count)])
    }

    // MARK: Cleaning

    /// Notes that the store has persisted everything that it got before this serial number.
    func stored(_ serial: UInt64) {
        storedSerial = max(storedSerial, serial)
        hasWarned = false
    }

    /// Logs a warning, once for each outage of the store.
    private func warnOfUnstored() {
        guard !hasWarned else { return }
        hasWarned = true
        log.warning(
            "missed calls would not survive a crash, because neither the store nor the call journal can take them",
            [.path: .text(folder)])
    }

    /// Removes the oldest files while more than half of all bytes are useless. Entries of active calls in these files
    /// are copied to the last file. While the store fails, missed calls exist only in these files. While the store does
    /// not have the missed calls, the files are kept up to a limit.
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
                    // An entry of the kind `over` may belong to an earlier call with the same number, so it is not
                    // copied.
                    if entry.kind != .over, live[entry.call] != nil { pending += bytes[entry.range] }
                    place = entry.range.upperBound
                }
                // The file is removed only after its entries are in the last file.
                guard (try? append()) != nil else { return }
            }
            AppendedFile.remove(path)
            files.removeFirst()
        }
    }

    /// Whether the file is small and there are many files. Each run begins a file, so short runs leave many small
    /// files.
    private func isOneOfMany(_ file: File) -> Bool {
        files.count > settings.manyFiles && file.size < settings.fileSize / 8
    }

    /// Closes the journal. If the store has all missed calls and no call is active, all files are removed.
    func close(isStored: Bool, now: Instant) {
        retryAt = nil
        flush(now: now)
        guard isStored, live.isEmpty, pending.isEmpty else { return }
        current = nil
        for file in files { AppendedFile.remove(path(of: file.number)) }
        files = []
    }
}

/// The sizes and limits of the call journal. Operators cannot change these settings: the defaults suit a laptop and a
/// server.
struct CallJournalSettings: Hashable, Sendable {
    /// The size in bytes at which the next file is begun.
    var fileSize = 1 << 20
    /// By how many bytes the useless entries in the files may exceed the useful entries.
    var slack = 4 << 20
    /// The number of useless bytes that are allowed while the store does not have all missed calls of the files.
    var unstoredLimit = 256 << 20
    /// The maximum number of files that one cleaning removes or copies.
    var filesAtOnce = 2
    /// The number of files above which small files are copied together, even if all of their entries are useful.
    var manyFiles = 16
    /// How many bytes may wait while writes fail.
    var pendingLimit = 8 << 20
    var retryInterval: Duration = .seconds(1)

    init() {}
}
