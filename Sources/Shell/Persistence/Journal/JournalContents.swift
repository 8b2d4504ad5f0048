import Calling
import ProxyCore
import PushPlanning
import Registration

/// The contents of the call journal at the start of the program.
struct JournalContents {
    private(set) var lastSerial: UInt64 = 0
    var missed: [(serial: UInt64, change: StoredBucketChange)] = []
    /// The changes of each active call. An entry that was copied to a later file is not in its order any more, and can
    /// occur twice.
    private var changes: [UInt64: [(serial: UInt64, change: CallChange)]] = [:]
    /// The number of bytes that each call has in the files.
    private(set) var sizes: [UInt64: Int] = [:]
    /// The calls, sorted by number; `nil` before ``calls(after:limit:)`` is first called.
    private var calls: [StoredCall]?

    /// Adds the entries of the next file, up to the first entry that cannot be read.
    ///
    /// - Returns: how many bytes were read.
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

    /// The next calls, sorted by number. A call is not returned if its first entry is missing.
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
                // If an earlier run used the same number for another call, the later call replaces it.
                found = call
            } else {
                found?.apply(change)
            }
        }
        return found
    }
}
