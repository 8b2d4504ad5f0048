import Bytes
import SIPGrammar

/// Cuts the bytes of a stream into messages by Content-Length (RFC 3261 section 18.3).
///
/// It keeps no bytes: the caller passes all waiting bytes, and it reports what is at their front. It does not scan
/// bytes twice, so a message that arrives byte by byte costs no more than a whole one. It parses rows like
/// ``MessageReader``, so that both always agree on the end of a message.
package struct StreamFramer: Sendable {
    package enum Frame: Hashable, Sendable {
        /// More bytes are needed. Pass the same ones again with the following ones.
        case incomplete
        /// One CRLF (2 bytes), to be ignored, or two (4 bytes), to be answered by one (RFC 5626 section 4.4.1).
        case keepAlive(Int)
        /// A whole message of this length.
        case message(Int)
        /// The head is too long, or its Content-Length is missing, not a number, repeated or too large: the start of
        /// the next message is unknown. ``MessageReader`` makes the last answer from the waiting bytes.
        case broken
    }

    private let limits: ReaderLimits
    /// How far the end of the head was searched.
    private var scanned = 0
    /// The length of the message, after its head was parsed.
    private var length: Int?

    package init(limits: ReaderLimits = ReaderLimits()) { self.limits = limits }

    /// Determines the frame at the front of the bytes. The caller then drops that part, and passes the rest. `head` becomes the head
    /// of a complete message, and otherwise stays unchanged.
    package mutating func next(in bytes: Span<UInt8>, head: inout MessageHead?) -> Frame {
        if let length { return finish(length, bytes) }
        if scanned == 0, !bytes.isEmpty, bytes[0] == UInt8(ascii: "\r") || bytes[0] == UInt8(ascii: "\n") {
            return lineEnds(bytes)
        }
        // Nearly every head arrives in one piece, and its end is found by parsing it.
        if scanned == 0 {
            let read = MessageHead(bytes, limits)
            if read.index.hasEnd { return headEnded(at: read.index.bodyStart, read, bytes, &head) }
        }
        let end = min(bytes.count, limits.head)
        while scanned < end {
            let place = bytes.nextControl(from: scanned, to: end)
            guard Self.isEmptyLine(bytes, place, end) else {
                // With fewer than four bytes it may still become one.
                scanned = place + 4 > end && bytes.count <= limits.head ? place : place + 1
                if scanned == place { break }
                continue
            }
            return headEnded(at: place + 4, MessageHead(bytes.extracting(0..<place + 4), limits), bytes, &head)
        }
        return bytes.count >= limits.head ? .broken : .incomplete
    }

    private mutating func headEnded(
        at end: Int, _ read: MessageHead, _ bytes: Span<UInt8>, _ head: inout MessageHead?
    ) -> Frame {
        guard let body = bodyLength(bytes, read) else { return .broken }
        let length = end + body
        self.length = length
        if bytes.count >= length { head = read }
        return finish(length, bytes)
    }

    private mutating func finish(_ length: Int, _ bytes: Span<UInt8>) -> Frame {
        guard bytes.count >= length else { return .incomplete }
        scanned = 0
        self.length = nil
        return .message(length)
    }

    private static func isEmptyLine(_ bytes: Span<UInt8>, _ place: Int, _ end: Int) -> Bool {
        place + 3 < end && bytes[place] == UInt8(ascii: "\r") && bytes[place + 1] == UInt8(ascii: "\n")
            && bytes[place + 2] == UInt8(ascii: "\r") && bytes[place + 3] == UInt8(ascii: "\n")
    }

    /// Only the following byte distinguishes a single CRLF from the first half of a keep-alive, so it waits for that.
    private func lineEnds(_ bytes: Span<UInt8>) -> Frame {
        let expected: StaticString = "\r\n\r\n"
        for index in 0..<min(bytes.count, 4) where bytes[index] != expected.byte(at: index) {
            return index >= 2 ? .keepAlive(2) : .broken
        }
        return bytes.count < 4 ? .incomplete : .keepAlive(4)
    }

    /// The length of the body from the head; `nil` if it is missing or not reliable.
    private func bodyLength(_ bytes: Span<UInt8>, _ head: MessageHead) -> Int? {
        guard !head.isRepeated(.contentLength), let place = head.index.place(of: .contentLength)
        else { return nil }
        let value = head.fields[place].value
        guard let length = ContentLength.read(bytes, value), length <= limits.body
        else { return nil }
        return length
    }
}

/// The parts of a message that ``StreamFramer`` has parsed, so that ``MessageReader`` need not parse them again.
package struct MessageHead: Sendable {
    let index: HeadIndex
    let fields: FieldList

    init(_ bytes: Span<UInt8>, _ limits: ReaderLimits) {
        var fields = FieldList()
        index = HeadIndex(bytes, limits, &fields)
        self.fields = fields
    }

    /// Whether the name occurs in more than one row or value.
    func isRepeated(_ name: HeaderName) -> Bool {
        var count = 0
        for place in 0..<fields.count where fields[place].name == name { count += 1 }
        return count > 1
    }
}
