package import Bytes

/// The header fields of a message, in their order.
///
/// The entries follow the message's bytes in the same storage, so that a message needs only one allocation.
package struct HeaderFields: Sendable {
    let storage: ByteStorage
    /// The index of the first entry in the storage.
    let start: Int32
    let size: Int32

    /// The number of bytes for `count` header fields in a storage.
    package static func room(for count: Int) -> Int { count * MemoryLayout<HeaderField>.stride }

    /// Creates the list from fields that were written to the storage from `start` on.
    package init(in storage: ByteStorage, at start: Int, count: Int) {
        precondition(
            start >= 0 && count >= 0 && Self.room(for: count) <= storage.capacityInBytes - start,
            "fields outside their storage")
        self.storage = storage
        self.start = Int32(truncatingIfNeeded: start)
        size = Int32(truncatingIfNeeded: count)
    }

    /// Copies the fields of an array into a new storage.
    package init(_ fields: [HeaderField]) {
        let storage = ByteStorage.make(capacity: Self.room(for: fields.count))
        for (index, field) in fields.enumerated() { storage.store(field, at: Self.room(for: index)) }
        self.init(in: storage, at: 0, count: fields.count)
    }
}

extension HeaderFields: RandomAccessCollection {
    package var startIndex: Int { 0 }
    package var endIndex: Int { Int(size) }

    package subscript(index: Int) -> HeaderField {
        precondition(index >= 0 && index < endIndex, "no such field")
        return unsafe storage.value(HeaderField.self, at: Int(start) &+ index &* MemoryLayout<HeaderField>.stride)
    }

    package func makeIterator() -> Iterator { Iterator(fields: self) }

    /// An iterator over the fields. Written by hand, because the standard library's iterator is slower in other
    /// modules.
    package struct Iterator: IteratorProtocol {
        fileprivate let fields: HeaderFields
        private var index = 0

        fileprivate init(fields: HeaderFields) { self.fields = fields }

        package mutating func next() -> HeaderField? {
            guard index < fields.endIndex else { return nil }
            defer { index &+= 1 }
            return fields[index]
        }
    }
}
