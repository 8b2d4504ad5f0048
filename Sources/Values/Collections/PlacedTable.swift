/// A table that finds records by their keys. A record needs about thirteen bytes of memory besides its own size. A
/// dictionary would reserve up to three times the size of its records.
///
/// A record stays at its index, called its place, until the record is removed. Code that has stored a record's place
/// can access the record without the key.
@usableFromInline
package struct PlacedTable<Key: Hashable, Value> {
    @usableFromInline package typealias Place = UInt32

    @usableFromInline var index = SlotIndex()
    /// The key of the record at each index, if any.
    @usableFromInline var keys: [Key?] = []
    @usableFromInline var values: [Value] = []
    @usableFromInline var vacant: [Place] = []
    /// The value at an index without a record.
    @usableFromInline let empty: Value

    @inlinable
    package init(empty: Value) { self.empty = empty }

    @inlinable package var count: Int { index.count }
    @inlinable package var isEmpty: Bool { index.count == 0 }

    @inlinable
    package func place(of key: Key) -> Place? { isEmpty ? nil : place(of: key, hash: Self.hash(key)) }

    @inlinable
    func place(of key: Key, hash: UInt32) -> Place? { index.find(hash: hash) { keys[Int($0)] == key } }

    /// The record at the given index. Precondition: the index has a record.
    @inlinable
    package subscript(place: Place) -> Value {
        _read { yield values[Int(place)] }
        _modify { yield &values[Int(place)] }
    }

    @inlinable
    package subscript(key: Key) -> Value? { place(of: key).map { values[Int($0)] } }

    @inlinable
    package func key(at place: Place) -> Key? { keys[Int(place)] }

    /// The index of the record with the given key, which is created if missing.
    @inlinable
    package mutating func madePlace(of key: Key) -> Place {
        let hash = Self.hash(key)
        if let place = place(of: key, hash: hash) { return place }
        let place: Place
        if let last = vacant.popLast() {
            place = last
            keys[Int(place)] = key
        } else {
            place = Place(truncatingIfNeeded: keys.count)
            keys.append(key)
            values.append(empty)
        }
        index.insert(hash: hash, slot: place)
        return place
    }

    @inlinable
    package mutating func remove(at place: Place) {
        guard let key = keys[Int(place)] else { return }
        index.remove(hash: Self.hash(key), slot: place)
        keys[Int(place)] = nil
        values[Int(place)] = empty
        vacant.append(place)
    }

    /// All records, in no particular order.
    @inlinable
    package var all: some Sequence<(key: Key, value: Value)> {
        zip(keys, values).lazy.compactMap { key, value in key.map { ($0, value) } }
    }

    /// The 32-bit hash of a key, with a random seed unless the key is a ``SerialID``.
    @inlinable
    static func hash(_ key: Key) -> UInt32 { UInt32(truncatingIfNeeded: key._rawHashValue(seed: 0)) }
}

extension PlacedTable: Sendable where Key: Sendable, Value: Sendable {}
