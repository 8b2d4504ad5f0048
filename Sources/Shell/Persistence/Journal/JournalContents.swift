import ProxyCore

/// What the journal of calls holds when the program starts.
struct JournalContents {
    private(set) var lastSerial: UInt64 = 0
    var missed: [(serial: UInt64, change: StoredBucketChange)] = []
    /// What happened to each call that goes on. Entries that were copied to a later file stand there behind later ones, and
    /// perhaps twice.
    private var changes: [UInt64: [(serial: UInt64, change: CallChange)]] = [:]
    /// How many bytes each of them has.
    private(set) var sizes: [UInt64: Int] = [:]
    /// The calls in the order of their numbers, when somebody has asked for them.
    private var calls: [StoredCall]?

    /// Takes in the next file, as far as it can be read.
    ///
    /// - Returns: how many bytes of it could be.
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

    /// Calls whose beginning is not there are none.
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
                // A call of an earlier run may have had the same number.
                found = call
            } else {
                found?.apply(change)
            }
        }
        return found
    }
}
