/// A hash table from the hash of a record's key to the record's slot, an index in another array. The table uses open
/// addressing with linear probing, and eight bytes for each entry.
///
/// An entry has a 32-bit hash of the key, but no key. If a key comes from the network, its hash must have a random
/// seed. If several slots have the same hash, the owner compares the keys of their records.
///
/// The table can grow without reading the records. A quarter of the entries stays empty, because a search ends at an
/// empty entry. The table grows by half of its size, so that it never needs more than 16 bytes for each slot.
@usableFromInline
package struct SlotIndex: Sendable {
    /// The upper half of an entry is the hash, and the lower half is the slot plus one; an empty entry is 0.
    @usableFromInline var places: [UInt64]
    @usableFromInline package private(set) var count = 0

    package init() { places = Array(repeating: 0, count: 16) }

    @inlinable
    package func find(hash: UInt32, where matches: (UInt32) -> Bool) -> UInt32? {
        var position = home(of: hash)
        while true {
            let place = places[position]
            if place == 0 { return nil }
            if Self.hash(place) == hash, matches(Self.slot(place)) { return Self.slot(place) }
            position = after(position)
        }
    }

    /// All slots with the given hash, in any order.
    package func slots(hash: UInt32) -> [UInt32] {
        var slots: [UInt32] = []
        _ = find(hash: hash) { slot in
            slots.append(slot)
            return false
        }
        return slots
    }

    /// Adds a slot with its hash. Precondition: the slot is not in the table yet.
    @usableFromInline package mutating func insert(hash: UInt32, slot: UInt32) {
        if count >= places.count / 4 * 3 { grow() }
        count += 1
        put(Self.place(hash, slot))
    }

    /// Replaces a slot by another slot; the keys of both records have the same hash.
    package mutating func replace(hash: UInt32, slot: UInt32, with newSlot: UInt32) {
        guard let position = position(hash: hash, slot: slot) else { return }
        places[position] = Self.place(hash, newSlot)
    }

    @usableFromInline package mutating func remove(hash: UInt32, slot: UInt32) {
        guard var gap = position(hash: hash, slot: slot) else { return }
        count -= 1
        // A search ends at an empty entry. If the removed entry's gap would hide a later entry from searches, the later
        // entry moves into the gap.
        var position = after(gap)
        while places[position] != 0 {
            let home = home(of: Self.hash(places[position]))
            if distance(from: home, to: position) >= distance(from: gap, to: position) {
                places[gap] = places[position]
                gap = position
            }
            position = after(position)
        }
        places[gap] = 0
    }

    private func position(hash: UInt32, slot: UInt32) -> Int? {
        let wanted = Self.place(hash, slot)
        var position = home(of: hash)
        while places[position] != wanted {
            if places[position] == 0 { return nil }
            position = after(position)
        }
        return position
    }

    private mutating func put(_ place: UInt64) {
        var position = home(of: Self.hash(place))
        while places[position] != 0 { position = after(position) }
        places[position] = place
    }

    private mutating func grow() {
        let old = places
        places = Array(repeating: 0, count: old.count + old.count / 2)
        for place in old where place != 0 { put(place) }
    }

    // MARK: Positions and places in the hash table

    /// The entry at which a search for the hash begins. A hash is scaled to the number of entries, which need not be a
    /// power of two.
    @inlinable
    func home(of hash: UInt32) -> Int {
        Int(truncatingIfNeeded: (UInt64(hash) &* UInt64(truncatingIfNeeded: places.count)) >> 32)
    }

    @inlinable
    func after(_ position: Int) -> Int { position + 1 == places.count ? 0 : position + 1 }

    /// The number of steps from the entry `start` to the entry `end` in the ring of entries.
    private func distance(from start: Int, to end: Int) -> Int {
        end >= start ? end - start : end - start + places.count
    }

    private static func place(_ hash: UInt32, _ slot: UInt32) -> UInt64 { UInt64(hash) << 32 | UInt64(slot) + 1 }
    @inlinable static func hash(_ place: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: place >> 32) }
    @inlinable static func slot(_ place: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: place & 0xffff_ffff) - 1 }
}
