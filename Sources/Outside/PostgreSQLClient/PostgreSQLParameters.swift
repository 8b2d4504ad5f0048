/// The parameters of the next statement of a ``PreparedConnection``, in PostgreSQL's binary format. A parameter that is
/// not bound is NULL.
package final class PostgreSQLParameters {
    /// The bytes of all values, one after the other. The first byte belongs to no value, so that the array has an
    /// address.
    private(set) var bytes: [UInt8] = [0]
    /// The part of ``bytes`` that each parameter has; `nil` for NULL.
    private(set) var places: [Range<Int>?] = []

    func clear() {
        bytes.removeAll(keepingCapacity: true)
        bytes.append(0)
        places.removeAll(keepingCapacity: true)
    }

    package func bind(_ index: Int, integer: Int64) {
        add(at: index) {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: integer >> shift))
            }
        }
    }

    /// Binds a text for a column of the type `text`. PostgreSQL allows no zero bytes in texts, so U+FFFD replaces each
    /// zero byte.
    package func bind(_ index: Int, text: String) {
        guard text.utf8.contains(0) else { return add(at: index) { bytes.append(contentsOf: text.utf8) } }
        add(at: index) { bytes.append(contentsOf: text.replacing("\0", with: "\u{FFFD}").utf8) }
    }

    /// Binds bytes for a column of the type `bytea`, or ASCII characters for a column of the type `text`.
    package func bind(_ index: Int, text: Span<UInt8>) {
        add(at: index) { unsafe text.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) } }
    }

    package func bind(_ index: Int, blob: Span<UInt8>) { bind(index, text: blob) }

    package func bindNull(_ index: Int) { reach(index) }

    /// Writes an array of values of the type `bytea` in PostgreSQL's binary format.
    package static func array(_ values: [[UInt8]]) -> [UInt8] {
        var out: [UInt8] = []
        func append(_ number: Int32) {
            for shift in stride(from: 24, through: 0, by: -8) { out.append(UInt8(truncatingIfNeeded: number >> shift)) }
        }
        append(values.isEmpty ? 0 : 1)  // dimensions
        append(0)  // no value is NULL
        append(17)  // the number of the type bytea
        guard !values.isEmpty else { return out }
        append(Int32(clamping: values.count))
        append(1)  // the index of the first value
        for value in values {
            append(Int32(clamping: value.count))
            out.append(contentsOf: value)
        }
        return out
    }

    /// Writes an array of values of the type `bigint` in PostgreSQL's binary format.
    package static func array(_ values: [Int64]) -> [UInt8] {
        var out: [UInt8] = []
        func append(_ number: UInt64, bytes count: Int) {
            for shift in stride(from: (count - 1) * 8, through: 0, by: -8) {
                out.append(UInt8(truncatingIfNeeded: number >> shift))
            }
        }
        append(values.isEmpty ? 0 : 1, bytes: 4)  // dimensions
        append(0, bytes: 4)  // no value is NULL
        append(20, bytes: 4)  // the number of the type bigint
        guard !values.isEmpty else { return out }
        append(UInt64(values.count), bytes: 4)
        append(1, bytes: 4)  // the index of the first value
        for value in values {
            append(8, bytes: 4)
            append(UInt64(bitPattern: value), bytes: 8)
        }
        return out
    }

    private func add(at index: Int, _ append: () -> Void) {
        let start = bytes.count
        append()
        reach(index)
        places[index - 1] = start..<bytes.count
    }

    /// Adds NULL parameters until the parameter with the given index exists.
    private func reach(_ index: Int) {
        while places.count < index { places.append(nil) }
    }
}
