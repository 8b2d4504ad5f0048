/// Cuts the bytes of a stream into messages by Content-Length (RFC 3261 section 18.3).
///
/// Keeps no bytes: it is shown all that wait, and says what stands at their front. What it saw already it does not read
/// again, so a message that drips in byte by byte costs no more than one that comes whole.
package struct StreamFramer: Sendable {
    package enum Frame: Hashable, Sendable {
        /// More bytes are needed; show the same ones again with what follows them.
        case incomplete
        /// One CRLF (2 bytes), to be ignored, or two (4 bytes), to be answered by one (RFC 5626 section 4.4.1).
        case keepAlive(Int)
        /// A whole message of that many bytes.
        case message(Int)
        /// The head is too long, or its Content-Length is missing, not a number, contradictory or too large: the place of
        /// the next message is not known.
        case broken
    }

    private let limits: ReaderLimits
    /// How far the end of the head was looked for.
    private var scanned = 0
    /// Length of the message, once its head was read.
    private var length: Int?

    package init(limits: ReaderLimits = ReaderLimits()) { self.limits = limits }

    /// What stands at the front of the bytes; the caller then drops that many and shows the rest.
    package mutating func next(in bytes: Span<UInt8>) -> Frame {
        if let length { return finish(length, bytes) }
        if scanned == 0, bytes.count > 0, bytes[0] == 13 || bytes[0] == 10 { return lineEnds(bytes) }
        var index = max(scanned - 3, 0)
        while index + 3 < bytes.count {
            if bytes[index] == 13, bytes[index + 1] == 10, bytes[index + 2] == 13, bytes[index + 3] == 10 {
                guard index + 4 <= limits.head, let body = Self.contentLength(bytes, head: index + 2),
                    body <= limits.body
                else { return .broken }
                length = index + 4 + body
                return finish(index + 4 + body, bytes)
            }
            index += 1
        }
        scanned = bytes.count
        return bytes.count > limits.head ? .broken : .incomplete
    }

    private mutating func finish(_ length: Int, _ bytes: Span<UInt8>) -> Frame {
        guard bytes.count >= length else { return .incomplete }
        scanned = 0
        self.length = nil
        return .message(length)
    }

    private func lineEnds(_ bytes: Span<UInt8>) -> Frame {
        guard bytes[0] == 13 else { return .broken }
        guard bytes.count >= 2 else { return .incomplete }
        guard bytes[1] == 10 else { return .broken }
        if bytes.count >= 4, bytes[2] == 13, bytes[3] == 10 { return .keepAlive(4) }
        // A second CRLF may be on its way, but one alone is ignored just as well: waiting for it could last for ever.
        if bytes.count == 3, bytes[2] == 13 { return .incomplete }
        return .keepAlive(2)
    }

    /// The value of Content-Length (or `l`) in the rows before `head`; `nil` when it is missing or not to be trusted.
    private static func contentLength(_ bytes: Span<UInt8>, head: Int) -> Int? {
        var found: Int?
        var row = 0
        while row < head {
            var end = row
            while end < head, bytes[end] != 13 { end += 1 }
            if let start = valueStart(bytes, row..<end) {
                guard let value = number(bytes, start..<end), found == nil || found == value else { return nil }
                found = value
            }
            row = end + 2
        }
        return found
    }

    private static func valueStart(_ bytes: Span<UInt8>, _ row: Range<Int>) -> Int? {
        let names: [StaticString] = ["content-length", "l"]
        for name in names {
            let count = name.utf8CodeUnitCount
            guard row.count > count else { continue }
            var matches = true
            for index in 0..<count {
                let byte = bytes[row.lowerBound + index]
                let lower = byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
                if unsafe lower != name.utf8Start[index] { matches = false }
            }
            guard matches else { continue }
            var colon = row.lowerBound + count
            while colon < row.upperBound, isBlank(bytes[colon]) { colon += 1 }
            if colon < row.upperBound, bytes[colon] == UInt8(ascii: ":") { return colon + 1 }
        }
        return nil
    }

    private static func number(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int? {
        var start = range.lowerBound
        var end = range.upperBound
        while start < end, isBlank(bytes[start]) { start += 1 }
        while end > start, isBlank(bytes[end - 1]) { end -= 1 }
        guard end > start, end - start <= 9 else { return nil }
        var value = 0
        for index in start..<end {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            value = value * 10 + Int(digit)
        }
        return value
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 32 || byte == 9 }
}
