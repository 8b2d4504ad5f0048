/// The slots of server transactions by their key: open addressing with linear probing.
///
/// Eight bytes for each place: the upper half repeats the key's low 32 bits, which also say where the place belongs;
/// the lower half is the slot plus one, 0 in an empty place. The keys themselves stay in the records.
struct TransactionKeyIndex: Sendable {
    private var places = [UInt64](repeating: 0, count: 1024)
    private var count = 0

    private var mask: Int { places.count - 1 }

    func slot(of key: TransactionKey, in records: [ServerRecord]) -> Int? {
        let tag = UInt32(truncatingIfNeeded: key.low)
        var position = Int(tag) & mask
        while places[position] != 0 {
            let slot = Int(places[position] & 0xffff_ffff) - 1
            if UInt32(places[position] >> 32) == tag, records[slot].key == key { return slot }
            position = (position + 1) & mask
        }
        return nil
    }

    /// - Precondition: the key is not in the index.
    mutating func insert(_ key: TransactionKey, slot: Int) {
        if count * 4 >= places.count * 3 { grow() }
        count += 1
        place(key.low << 32 | UInt64(slot + 1))
    }

    mutating func remove(_ key: TransactionKey, slot: Int) {
        let wanted = key.low << 32 | UInt64(slot + 1)
        var position = Int(UInt32(truncatingIfNeeded: key.low)) & mask
        while places[position] != wanted {
            guard places[position] != 0 else { return }
            position = (position + 1) & mask
        }
        count -= 1
        closeGap(at: position)
    }

    private mutating func place(_ entry: UInt64) {
        var position = Int(entry >> 32) & mask
        while places[position] != 0 { position = (position + 1) & mask }
        places[position] = entry
    }

    /// Moves back every follower that would no longer be found behind the gap.
    private mutating func closeGap(at removed: Int) {
        var gap = removed
        var position = (gap + 1) & mask
        while places[position] != 0 {
            let home = Int(places[position] >> 32) & mask
            if (position - home) & mask >= (position - gap) & mask {
                places[gap] = places[position]
                gap = position
            }
            position = (position + 1) & mask
        }
        places[gap] = 0
    }

    private mutating func grow() {
        let old = places
        places = [UInt64](repeating: 0, count: old.count * 2)
        for entry in old where entry != 0 { place(entry) }
    }
}
