import Calling
import ProxyCore
import PushPlanning
import Registration

/// The contents of the call journal at the start of the program.
struct JournalContents {
    private(set) var lastSerial: UInt64 = 0
    var missed: [(serial: UInt64, change: StoredBucketChange)] = []
    /// The changes of each active call in the journal, in no order. A change of a call can occur twice, because the
    /// journal copies entries to later files.
    private var changes: [UInt64: [(serial: UInt64, change: CallChange)]] = [:]
    /// The number of bytes of each call in the journal's files.
    private(set) var sizes: [UInt64: Int] = [:]
    /// The calls, sorted by number; `nil` until ``calls(after:limit:)`` is called for the first time.
    private var calls: [StoredCall]?

    /// Adds the entries of the next journal file, up to the first entry that cannot be read.
    ///
    /// - Returns: the number of bytes that were read from the journal file.
    mutating func read(_ bytes: [UInt8], _ key: JournalKey) -> Int {
        var place = 0
        while let entry = JournalEntry(in: bytes, at: place, key) {
            place = entry.range.upperBound
            lastSerial = max(lastSerial, entry.serial)
            guard let change = entry.change(in: bytes) else { continue }
            switch change {
            case .missed(let change): missed.append((entry.serial, change))
            case .over(let call):
                changes[call] = nil
                sizes[call] = nil
            case .begun, .branch, .final:
                changes[entry.call, default: []].append((entry.serial, change))
                sizes[entry.call, default: 0] += entry.range.count
            }
        }
        return place
    }

    /// Returns the next calls in the journal, sorted by number; a call whose first journal entry is missing is omitted.
    mutating func calls(after id: UInt64, limit: Int) -> [StoredCall] {
        let all = calls ?? changes.values.compactMap(Self.call).sorted { $0.id < $1.id }
        calls = all
        changes = [:]
        let page = Array(all.lazy.filter { $0.id > id }.prefix(limit))
        if page.isEmpty { calls = [] }
        return page
    }

    private static func call(_ changes: [(serial: UInt64, change: CallChange)]) -> StoredCall? {
        var found: StoredCall?
        var last: UInt64 = 0
        for (serial, change) in changes.sorted(by: { $0.serial < $1.serial }) where serial > last {
            last = serial
            if case .begun(let call) = change {
                // A later call with the same number replaces the call of an earlier run.
                found = call
            } else {
                found?.apply(change)
            }
        }
        return found
    }
}
