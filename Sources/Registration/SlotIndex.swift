/// A hash index from keys that stand elsewhere to slot numbers: open addressing, eight bytes an entry.
///
/// Knows neither keys nor hash function. The caller hands in a 32-bit hash (of network bytes: a seeded one) and says
/// which slot of an equal hash is meant; the hash is kept, so growing reads nothing but the index.
struct SlotIndex {
    /// Hash in the upper half, slot + 1 in the lower; 0 is an empty place. The count is a power of two.
    private var places: [UInt64]
    private(set) var count = 0

    init() { places = Array(repeating: 0, count: 16) }

    @inline(__always)
    func find(hash: UInt32, where matches: (UInt32) -> Bool) -> UInt32? {
        let mask = places.count - 1
        var place = Int(hash) & mask
        while true {
            let entry = places[place]
            if entry == 0 { return nil }
            if Self.hash(entry) == hash, matches(Self.slot(entry)) { return Self.slot(entry) }
            place = (place + 1) & mask
        }
    }

    /// Adds an entry that is not there yet.
    mutating func insert(hash: UInt32, slot: UInt32) {
        if count >= places.count / 8 * 7 { grow() }
        count += 1
        put(UInt64(hash) << 32 | UInt64(slot) + 1)
    }

    /// Points an entry at another slot.
    mutating func replace(hash: UInt32, slot: UInt32, with newSlot: UInt32) {
        guard let place = place(hash: hash, slot: slot) else { return }
        places[place] = UInt64(hash) << 32 | UInt64(newSlot) + 1
    }

    mutating func remove(hash: UInt32, slot: UInt32) {
        guard var hole = place(hash: hash, slot: slot) else { return }
        let mask = places.count - 1
        places[hole] = 0
        count -= 1
        // Entries behind the hole move up, so that a search never has to step over removed ones.
        var place = (hole + 1) & mask
        while places[place] != 0 {
            let home = Int(Self.hash(places[place])) & mask
            if (place - home) & mask >= (place - hole) & mask {
                places[hole] = places[place]
                places[place] = 0
                hole = place
            }
            place = (place + 1) & mask
        }
    }

    private func place(hash: UInt32, slot: UInt32) -> Int? {
        let mask = places.count - 1
        let wanted = UInt64(hash) << 32 | UInt64(slot) + 1
        var place = Int(hash) & mask
        while places[place] != 0 {
            if places[place] == wanted { return place }
            place = (place + 1) & mask
        }
        return nil
    }

    private mutating func put(_ entry: UInt64) {
        let mask = places.count - 1
        var place = Int(Self.hash(entry)) & mask
        while places[place] != 0 { place = (place + 1) & mask }
        places[place] = entry
    }

    private mutating func grow() {
        let old = places
        places = Array(repeating: 0, count: old.count * 2)
        for entry in old where entry != 0 { put(entry) }
    }

    private static func hash(_ entry: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: entry >> 32) }
    private static func slot(_ entry: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: entry & 0xffff_ffff) - 1 }
}
