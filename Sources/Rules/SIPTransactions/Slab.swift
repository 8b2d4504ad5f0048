/// A record that a ``Slab`` stores.
protocol SlabRecord {
    /// The number of the record, which the slab assigns. 0 while the slot is free.
    var id: UInt64 { get set }
    /// Releases everything that the record holds.
    mutating func vacate()
}

/// Records in one array, found by numbers that are never reused.
///
/// A number consists of a 40-bit counter and a 24-bit slot. The counter shows whether a number is stale, because its
/// slot then holds another number.
struct Slab<Record: SlabRecord> {
    static var maximumCount: Int { 1 << 24 }

    /// The records by slot. Callers change them in place, at the slots that ``slot(of:)`` returns.
    var records: [Record] = []
    private var free: [UInt32] = []
    private var lastSerial: UInt64 = 0

    var count: Int { records.count - free.count }

    /// Stores the record under a new number and returns its slot.
    mutating func insert(_ record: consuming Record) -> Int {
        lastSerial &+= 1
        let slot: Int
        if let last = free.popLast() {
            slot = Int(last)
            records[slot] = record
        } else {
            slot = records.count
            precondition(slot < Self.maximumCount, "the table limits its transactions")
            records.append(record)
        }
        records[slot].id = lastSerial << 24 | UInt64(slot)
        return slot
    }

    func slot(of id: UInt64) -> Int? {
        let slot = Int(truncatingIfNeeded: id & 0xff_ffff)
        return slot < records.count && records[slot].id == id && id != 0 ? slot : nil
    }

    mutating func remove(slot: Int) {
        records[slot].vacate()
        records[slot].id = 0
        free.append(UInt32(truncatingIfNeeded: slot))
    }
}

extension Slab: Sendable where Record: Sendable {}
