/// Stores millions of small blocks of bytes in few large pieces of memory (slabs). A slab has blocks of nearly the same
/// length.
///
/// The owner keeps the ``Place`` of each block, and passes it to ``remove(_:)`` after use.
@usableFromInline
package struct ByteSlabs: Sendable {
    /// The position and the length of a stored block.
    @usableFromInline
    package struct Place: Sendable {
        @usableFromInline let number: UInt32
        @usableFromInline package let count: UInt16

        fileprivate init(number: UInt32, count: UInt16) {
            self.number = number
            self.count = count
        }

        /// The place of an empty block, which uses no memory.
        package static let none = Place(number: 0, count: 0)

        /// The block's size class: all blocks of a class have the size ``ByteSlabs/step`` times its index.
        @inlinable var shelf: Int { (Int(count) + ByteSlabs.step - 1) / ByteSlabs.step }
        @inlinable var slab: Int { Int(number) / ByteSlabs.blocksPerSlab }
        @inlinable var range: Range<Int> {
            let start = Int(number) % ByteSlabs.blocksPerSlab * shelf * ByteSlabs.step
            return start..<start + Int(count)
        }
    }

    @usableFromInline
    struct Shelf: Sendable {
        @usableFromInline var slabs: [[UInt8]] = []
        var count: UInt32 = 0
        var vacant: [UInt32] = []
    }

    @usableFromInline static let step = 8
    @usableFromInline static let blocksPerSlab = 64
    @usableFromInline var shelves: [Shelf] = []

    package init() {}

    /// Stores a block of bytes.
    ///
    /// - Returns: the place of the block; `nil` if it is too long.
    package mutating func add(_ bytes: Span<UInt8>) -> Place? {
        guard let count = UInt16(exactly: bytes.count) else { return nil }
        let shelf = Place(number: 0, count: count).shelf
        guard shelf > 0 else { return Place.none }
        while shelves.count <= shelf { shelves.append(Shelf()) }
        guard let number = shelves[shelf].vacant.popLast() else { return append(bytes, count, to: shelf) }
        let place = Place(number: number, count: count)
        unsafe bytes.withUnsafeBufferPointer { source in
            unsafe shelves[shelf].slabs[place.slab].withUnsafeMutableBufferPointer { slab in
                _ = unsafe UnsafeMutableBufferPointer(rebasing: slab[place.range]).update(from: source)
            }
        }
        return place
    }

    private mutating func append(_ bytes: Span<UInt8>, _ count: UInt16, to shelf: Int) -> Place {
        let place = Place(number: shelves[shelf].count, count: count)
        shelves[shelf].count += 1
        if place.slab == shelves[shelf].slabs.count {
            var slab: [UInt8] = []
            // Reserved memory is cheap, because the system provides a page only at its first write.
            slab.reserveCapacity(Self.blocksPerSlab * shelf * Self.step)
            shelves[shelf].slabs.append(slab)
        }
        shelves[shelf].slabs[place.slab].append(bytes)
        for _ in bytes.count..<shelf * Self.step { shelves[shelf].slabs[place.slab].append(0) }
        return place
    }

    /// Makes the memory of a block available to other blocks; called once for each place.
    package mutating func remove(_ place: Place) {
        if place.count > 0 { shelves[place.shelf].vacant.append(place.number) }
    }

    @inlinable
    package func withBytes<Result>(_ place: Place, _ body: (Span<UInt8>) -> Result) -> Result {
        guard place.count > 0 else { return body(Span()) }
        let range = place.range
        return unsafe shelves[place.shelf].slabs[place.slab].withUnsafeBufferPointer { slab in
            body(unsafe Span(_unsafeElements: UnsafeBufferPointer(rebasing: slab[range])))
        }
    }
}
