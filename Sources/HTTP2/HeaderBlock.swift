import CNGHTTP2

/// The header fields of one message to be sent, in one piece of memory that is used for one message after another.
package struct HeaderBlock {
    private struct Field {
        let start: Int
        let nameCount: Int
        let valueCount: Int
        let isRepeated: Bool
    }

    private var bytes: [UInt8] = []
    private var fields: [Field] = []

    package init() {}

    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    /// Appends a field. Its name is put in lower case, and white space around the value is left out (RFC 9113 section
    /// 8.2.1).
    ///
    /// A field that is not `isRepeated` stays out of the compression table, where it would only push out others.
    package mutating func append(_ name: String, _ value: String, isRepeated: Bool = true) {
        append(name, value.utf8.span, isRepeated: isRepeated)
    }

    package mutating func append(_ name: String, _ value: Span<UInt8>, isRepeated: Bool = true) {
        let start = bytes.count
        append(name.utf8.span)
        for index in start..<bytes.count where bytes[index] &- UInt8(ascii: "A") < 26 { bytes[index] |= 0x20 }
        let nameCount = bytes.count - start
        var range = 0..<value.count
        while let last = range.last, value[last].isBlank { range = range.dropLast() }
        while let first = range.first, value[first].isBlank { range = range.dropFirst() }
        append(value.extracting(range))
        fields.append(
            Field(
                start: start, nameCount: nameCount, valueCount: bytes.count - start - nameCount, isRepeated: isRepeated)
        )
    }

    private mutating func append(_ span: Span<UInt8>) {
        unsafe span.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
    }

    /// Lends the fields as nghttp2 wants them; it copies them.
    @discardableResult
    mutating func withFields<Result>(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Result) -> Result {
        unsafe bytes.withUnsafeMutableBufferPointer { bytes in
            unsafe withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count) { list in
                guard let base = bytes.baseAddress else { return body(nil, 0) }
                for (index, field) in fields.enumerated() {
                    let flags = field.isRepeated ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX
                    let name = unsafe base + field.start
                    unsafe list.initializeElement(
                        at: index,
                        to: nghttp2_nv(
                            name: name, value: name + field.nameCount, namelen: field.nameCount,
                            valuelen: field.valueCount, flags: UInt8(truncatingIfNeeded: flags.rawValue)))
                }
                return unsafe body(list.baseAddress, fields.count)
            }
        }
    }
}

extension UInt8 {
    fileprivate var isBlank: Bool { self == 0x20 || self == 0x09 }
}
