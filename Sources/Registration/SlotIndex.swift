/// A hash index from keys that stand elsewhere to slot numbers: open addressing, eight bytes an entry.
///
/// Knows neither keys nor hash function. The caller hands in a 32-bit hash (of network bytes: a seeded one) and says
/// which slot of an equal hash is meant; the hash is kept, so growing reads nothing but the index. Grows by half, so
/// that never more than 14 bytes stand for an entry.
struct SlotIndex {
    /// Hash in the upper half, slot + 1 in the lower; 0 is an empty place.
    private var places: [UInt64]
    private(set) var count = 0

    init() { places = Array(repeating: 0, count: 16) }

    @inline(__always)
    func find(hash: UInt32, where matches: (UInt32) -> Bool) -> UInt32? {
        var place = home(of: hash)
        while true {
            let entry = places[place]
            if entry == 0 { return nil }
            if Self.hash(entry) == hash, matches(Self.slot(entry)) { return Self.slot(entry) }
            place = after(place)
        }
    }

    /// All slots of a hash, in no particular order.
    func slots(hash: UInt32) -> [UInt32] {
        var slots: [UInt32] = []
        var place = home(of: hash)
        while places[place] != 0 {
            if Self.hash(places[place]) == hash { slots.append(Self.slot(places[place])) }
            place = after(place)
        }
        return slots
    }

    /// Adds an entry that is not there yet.
    mutating func insert(hash: UInt32, slot: UInt32) {
        if count >= places.count / 8 * 7 { grow() }
        count += 1
        put(Self.entry(hash, slot))
    }

    /// Points an entry at another slot.
    mutating func replace(hash: UInt32, slot: UInt32, with newSlot: UInt32) {
        guard let place = place(hash: hash, slot: slot) else { return }
        places[place] = Self.entry(hash, newSlot)
    }

    mutating func remove(hash: UInt32, slot: UInt32) {
        guard var hole = place(hash: hash, slot: slot) else { return }
        places[hole] = 0
        count -= 1
        // Entries behind the hole move up, so that a search never has to step over removed ones.
        var place = after(hole)
        while places[place] != 0 {
            let home = home(of: Self.hash(places[place]))
            if distance(from: home, to: place) >= distance(from: hole, to: place) {
                places[hole] = places[place]
                places[place] = 0
                hole = place
            }
            place = after(place)
        }
    }

    /// The hash scaled to the number of places, which need not be a power of two.
    private func home(of hash: UInt32) -> Int {
        Int(truncatingIfNeeded: (UInt64(hash) &* UInt64(truncatingIfNeeded: places.count)) >> 32)
    }

    private func after(_ place: Int) -> Int { place + 1 == places.count ? 0 : place + 1 }

    /// Steps forward, around the end.
    private func distance(from start: Int, to end: Int) -> Int {
        end >= start ? end - start : end - start + places.count
    }

    private func place(hash: UInt32, slot: UInt32) -> Int? {
        let wanted = Self.entry(hash, slot)
        var place = home(of: hash)
        while places[place] != 0 {
            if places[place] == wanted { return place }
            place = after(place)
        }
        return nil
    }

    private mutating func put(_ entry: UInt64) {
        var place = home(of: Self.hash(entry))
        while places[place] != 0 { place = after(place) }
        places[place] = entry
    }

    private mutating func grow() {
        let old = places
        places = Array(repeating: 0, count: old.count + old.count / 2)
        for entry in old where entry != 0 { put(entry) }
    }

    private static func entry(_ hash: UInt32, _ slot: UInt32) -> UInt64 { UInt64(hash) << 32 | UInt64(slot) + 1 }
    private static func hash(_ entry: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: entry >> 32) }
    private static func slot(_ entry: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: entry & 0xffff_ffff) - 1 }
}
