/// A record that a ``Slab`` stores.
protocol SlabRecord {
    /// The id of the record, which the slab assigns; a free slot has the id 0.
    var id: UInt64 { get set }
    /// Releases the memory of a removed record.
    mutating func vacate()
}

/// Stores records in one array, each with an id that no other record ever gets.
///
/// The id of a record has a 40-bit counter and a 24-bit slot index. The counter shows whether the slot of an old id has
/// a new record.
struct Slab<Record: SlabRecord> {
    static var maximumCount: Int { 1 << 24 }

    /// The records of the slab, by slot index. Records are changed in place, at the slot that ``slot(of:)`` returns.
    var records: [Record] = []
    private var free: [UInt32] = []
    private var lastSerial: UInt64 = 0

    var count: Int { records.count - free.count }

    /// Stores a record with a new id, and returns its slot index.
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
