import Calling
import ProxyCore
import PushPlanning
import Registration
import Storage
import Telemetry
import Timekeeping

/// The journal of waiting and ringing calls and of changes to missed calls, from which the daemon continues after a
/// restart.
///
/// The journal appends changes to files in a folder, on the loop's own thread. The engine sends a message only after
/// the kernel has the journal entries of the message; no message waits for a sync. Journal entries survive the end of
/// the process, but a power failure can lose the last seconds.
///
/// A full journal file is followed by the next file. When the store has the oldest file's missed calls, the file's
/// active calls are copied to the last file, and the oldest file is removed. All journal files together are never much
/// larger than twice the entries in use.
///
/// If a write to the journal fails, calls continue, and the write is retried. If too many entries wait for a write,
/// only the ends of calls are kept, so that no ended call is resumed.
final class CallJournal {
    private let folder: String
    private let key: JournalKey
    private let log: Log
    private let settings: CallJournalSettings
    /// Encoded journal entries that wait for a write.
    private var pending: [UInt8] = []
    private var current: AppendedFile?
    /// The journal's files, oldest first; new entries are appended to the last file.
    private var files: [File] = []
    /// The number of bytes of each active call, in files and in waiting entries, and the sum of all these numbers.
    private var live: [UInt64: Int]
    private var liveSize: Int
    private var lastSerial: UInt64
    /// The last serial number whose missed calls the journal has given to the store. Each ``flush(now:)`` of the
    /// journal raises `toldSerial`.
    private var toldSerial: UInt64
    /// The last serial number whose missed calls the store has persisted.
    private var storedSerial: UInt64 = 0
    /// Whether the log has the warning that missed calls exist only in the journal; reset when the store succeeds
    /// again.
    private var hasWarned = false
    /// The time at which the journal retries failed writes; `nil` if no entry waits.
    private(set) var retryAt: Instant?
    private var failingSince: Instant?
    /// Asks the store to call ``stored(_:)`` after it has persisted all changes up to the given serial number.
    var askStore: (UInt64) -> Void = { _ in }
    /// The number of failed writes of the journal.
    private(set) var failures: UInt64 = 0

    /// The entries from before the restart, read once at the start.
    private var found: JournalContents

    private struct File {
        let number: Int
        var size: Int
        /// The serial number of the file's last entry.
        var last: UInt64
    }

    /// Reads the journal files from before the restart.
    ///
    /// - Parameters:
    ///   - folder: the folder of the journal files, which is created if necessary.
    ///   - key: the key that authenticates the journal's entries; entries of another key are ignored.
    ///   - isFirstSealed: whether this run is the first with a key; if true, files without authentication codes are
    ///     read, and get the codes. Files without codes are ignored if an earlier run had a key, because such files can
    ///     be forged.
    ///   - settings: the sizes at which the journal begins and removes files.
    ///   - log: receives messages about failures of the journal.
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
            // A power failure during a write leaves zeros at the end of a file. Unreadable bytes at the end of a
            // journal file are reported in the log, unless they are zeros.
            if bytes[length...].contains(where: { $0 != 0 }) {
                log.error(
                    "the end of the call journal cannot be read, because the file was cut off, was changed, or belongs to another store",
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

    /// Adds authentication codes to journal files of earlier program versions.
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
                    "the old version's call journal could not be converted, so calls from before the upgrade are lost",
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

    /// The size in bytes of all journal files together.
    var size: Int { files.reduce(0) { $0 + $1.size } }

    // MARK: The start

    /// The missed calls from before the restart; called once, at the start.
    ///
    /// - Parameter serial: the serial number up to which the store has all missed calls.
    /// - Returns: the changes that the store does not have yet, oldest first.
    func missedCalls(after serial: UInt64) -> [StoredBucketChange] {
        storedSerial = serial
        // Serial numbers continue after the last number in the store, even if somebody removed the journal's files.
        lastSerial = max(lastSerial, serial)
        toldSerial = lastSerial
        defer { found.missed = [] }
        return found.missed.filter { $0.serial > serial }.map(\.change)
    }

    /// The next calls from before the restart, sorted by number; empty after the last call.
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

    /// Writes waiting entries to the last journal file. The engine calls ``flush(now:)`` before it sends a message that
    /// depends on waiting entries.
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
                    "the call journal cannot be written, so calls would not survive a crash",
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

    /// Drops waiting entries except the ends of calls, because too many entries wait. A call with incomplete entries
    /// cannot be resumed, so its remaining entries are useless.
    private func keepEndsOnly() {
        let all = pending
        pending = []
        var place = 0
        while let entry = JournalEntry(in: all, at: place, key) {
            if entry.kind == .over { pending += all[entry.range] }
            place = entry.range.upperBound
        }
        // If the ends of calls alone fill more than half of the limit, they are dropped too. Otherwise, the buffer
        // would soon be full again.
        if pending.count > settings.pendingLimit / 2 { pending = [] }
        // The store also gets the missed calls, so the dropped entries lose no missed call. The store also gets the
        // last entry's serial number. After a restart, older journal entries then do not overwrite newer rows.
        askStore(toldSerial)
        log.error(
            "entries of the call journal are dropped, because the journal's buffer in memory is full",
            [.path: .text(folder), .count: .number(all.count)])
    }

    // MARK: Cleaning

    /// Notes that the store has persisted all missed calls up to the given serial number.
    func stored(_ serial: UInt64) {
        storedSerial = max(storedSerial, serial)
        hasWarned = false
    }

    /// Logs a warning that missed calls exist only in the journal, once for each outage of the store.
    private func warnOfUnstored() {
        guard !hasWarned else { return }
        hasWarned = true
        log.warning(
            "missed calls would not survive a crash, because neither the store nor the call journal has room for them",
            [.path: .text(folder)])
    }

    /// Removes the oldest files while more than half of all bytes are useless, and copies active calls' entries to the
    /// last file. A file with missed calls that the store does not have is kept up to a limit, because no other copy
    /// exists.
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
                    // An `over` entry is not copied, because it may belong to an earlier call with the same number.
                    if entry.kind != .over, live[entry.call] != nil { pending += bytes[entry.range] }
                    place = entry.range.upperBound
                }
                // The oldest file is removed only after its entries are in the last file.
                guard (try? append()) != nil else { return }
            }
            AppendedFile.remove(path)
            files.removeFirst()
        }
    }

    /// Whether the journal's file is small and the journal has many files. Each run of the daemon begins a new file, so
    /// short runs leave many small files.
    private func isOneOfMany(_ file: File) -> Bool {
        files.count > settings.manyFiles && file.size < settings.fileSize / 8
    }

    /// Closes the journal, and removes its files if the store has all missed calls and no call is active.
    func close(isStored: Bool, now: Instant) {
        retryAt = nil
        flush(now: now)
        guard isStored, live.isEmpty, pending.isEmpty else { return }
        current = nil
        for file in files { AppendedFile.remove(path(of: file.number)) }
        files = []
    }
}

/// The sizes and limits of the call journal. The sizes are no settings for operators, because the defaults fit a laptop
/// and a server.
struct CallJournalSettings: Hashable, Sendable {
    /// The size in bytes at which the journal begins the next file.
    var fileSize = 1 << 20
    /// The number of useless bytes that the files may have in addition to the useful bytes.
    var slack = 4 << 20
    /// The number of useless bytes that the files may have while the store lacks missed calls.
    var unstoredLimit = 256 << 20
    /// The maximum number of files that one cleaning removes or copies.
    var filesAtOnce = 2
    /// The number of files above which small files are copied together, even if all entries are useful.
    var manyFiles = 16
    /// The maximum number of bytes that wait while writes to the journal fail.
    var pendingLimit = 8 << 20
    var retryInterval: Duration = .seconds(1)

    init() {}
}
