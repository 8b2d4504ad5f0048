import CNGHTTP2

/// The header fields of one outgoing message, in memory that is reused for the next message.
///
/// Fields that two successive messages have in common are written only once. ``removeRest(behind:)`` removes the fields
/// after a mark, and restores earlier values of the fields before it.
package struct HeaderBlock {
    private struct Field {
        let name: Range<Int>
        var value: Range<Int>
        let isRepeated: Bool
    }

    /// The state of a header block to which ``removeRest(behind:)`` returns.
    package struct Mark: Sendable {
        fileprivate let bytes: Int
        fileprivate let fields: Int
    }

    private var bytes: [UInt8] = []
    private var fields: [Field] = []
    /// The original values of fields that were replaced only for the current message.
    private var replaced: [(index: Int, value: Range<Int>)] = []

    package init() {}

    package mutating func removeAll() { removeRest(behind: Mark(bytes: 0, fields: 0)) }

    package var mark: Mark { Mark(bytes: bytes.count, fields: fields.count) }

    package mutating func removeRest(behind mark: Mark) {
        while let (index, value) = replaced.popLast() { fields[index].value = value }
        bytes.removeLast(bytes.count - mark.bytes)
        fields.removeLast(fields.count - mark.fields)
    }

    /// The number of header fields in the block.
    package var count: Int { fields.count }

    /// Appends a field, with its name in lower case and its value without white space around it (RFC 9113 section
    /// 8.2.1).
    ///
    /// If `isRepeated` is false, the field stays out of HTTP/2's compression table (HPACK), where it would displace
    /// more useful fields.
    package mutating func append(_ name: String, _ value: String, isRepeated: Bool = true) {
        append(name, value.utf8.span, isRepeated: isRepeated)
    }

    package mutating func append(_ name: String, _ value: Span<UInt8>, isRepeated: Bool = true) {
        let start = bytes.count
        append(name.utf8.span)
        for index in start..<bytes.count where bytes[index] &- UInt8(ascii: "A") < 26 { bytes[index] |= 0x20 }
        let end = bytes.count
        append(trimmed: value)
        fields.append(Field(name: start..<end, value: end..<bytes.count, isRepeated: isRepeated))
    }

    /// Replaces the value of a field until ``removeRest(behind:)``.
    package mutating func setValue(at index: Int, to value: Span<UInt8>) {
        let start = bytes.count
        append(trimmed: value)
        replaced.append((index, fields[index].value))
        fields[index].value = start..<bytes.count
    }

    private mutating func append(trimmed value: Span<UInt8>) {
        var range = 0..<value.count
        while let last = range.last, value[last].isBlank { range = range.dropLast() }
        while let first = range.first, value[first].isBlank { range = range.dropFirst() }
        append(value.extracting(range))
    }

    private mutating func append(_ span: Span<UInt8>) {
        unsafe span.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
    }

    /// Calls `body` with the fields in nghttp2's form; nghttp2 copies them.
    @discardableResult
    mutating func withFields<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
        unsafe bytes.withUnsafeMutableBufferPointer { bytes in
            unsafe withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count) { list in
                guard let base = bytes.baseAddress else { return body(nil, 0) }
                for (index, field) in fields.enumerated() {
                    let flags = field.isRepeated ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX
                    unsafe list.initializeElement(
                        at: index,
                        to: nghttp2_nv(
                            name: base + field.name.lowerBound, value: base + field.value.lowerBound,
                            namelen: field.name.count, valuelen: field.value.count,
                            flags: UInt8(truncatingIfNeeded: flags.rawValue)))
                }
                return unsafe body(list.baseAddress, fields.count)
            }
        }
    }
}

extension UInt8 {
    fileprivate var isBlank: Bool { self == 0x20 || self == 0x09 }
}
