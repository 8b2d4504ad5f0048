import Bytes
import SIPGrammar

/// Splits the bytes of a stream into messages, by Content-Length (RFC 3261 section 18.3).
///
/// The framer stores no bytes: it gets all waiting bytes, and finds the length of the first message. No byte is scanned
/// twice, even if a message arrives byte by byte. ``MessageReader``'s code parses the header fields, so that framer and
/// reader agree where a message ends.
package struct StreamFramer: Sendable {
    package enum Frame: Hashable, Sendable {
        /// The message is incomplete; next time, the framer must get the same bytes and the following bytes.
        case incomplete
        /// A keep-alive of the given number of bytes (RFC 5626 section 4.4.1). A single CRLF (2 bytes) needs no answer.
        /// A double CRLF (4 bytes) must be answered by a single CRLF.
        case keepAlive(Int)
        /// A complete message with the given length in bytes.
        case message(Int)
        /// The stream cannot be read further: the head is too long, or Content-Length is missing, invalid, repeated or
        /// too large. The caller passes the waiting bytes to ``MessageReader``, so that the last message is answered.
        case broken
    }

    private let limits: ReaderLimits
    /// The number of bytes in which the framer has already searched for the end of the head.
    private var scanned = 0
    /// The length of the message in bytes; `nil` until its head is parsed.
    private var length: Int?

    package init(limits: ReaderLimits = ReaderLimits()) { self.limits = limits }

    /// Finds the message or keep-alive at the front of the bytes; the next call must begin with the bytes after it. For
    /// a complete message, `head` is set to the parsed parts.
    package mutating func next(in bytes: Span<UInt8>, head: inout MessageHead?) -> Frame {
        if let length { return finish(length, bytes) }
        if scanned == 0, !bytes.isEmpty, bytes[0] == UInt8(ascii: "\r") || bytes[0] == UInt8(ascii: "\n") {
            return lineEnds(bytes)
        }
        // Nearly all heads arrive in one piece, in which the parser finds the end of the head.
        if scanned == 0 {
            let read = MessageHead(bytes, limits)
            if read.index.hasEnd { return headEnded(at: read.index.bodyStart, read, bytes, &head) }
        }
        let end = min(bytes.count, limits.head)
        while scanned < end {
            let place = bytes.nextControl(from: scanned, to: end)
            guard Self.isEmptyLine(bytes, place, end) else {
                // The last three bytes are searched again later, because the end of the head may begin there.
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

    /// Reads the line ends (keep-alives) between two SIP messages. After a single CRLF, the framer waits for the next
    /// byte, because a double CRLF may follow.
    private func lineEnds(_ bytes: Span<UInt8>) -> Frame {
        let expected: StaticString = "\r\n\r\n"
        for index in 0..<min(bytes.count, 4) where bytes[index] != expected.byte(at: index) {
            return index >= 2 ? .keepAlive(2) : .broken
        }
        return bytes.count < 4 ? .incomplete : .keepAlive(4)
    }

    /// The length of the body according to Content-Length; `nil` if the field is missing or unreliable.
    private func bodyLength(_ bytes: Span<UInt8>, _ head: MessageHead) -> Int? {
        guard !head.isRepeated(.contentLength), let place = head.index.place(of: .contentLength)
        else { return nil }
        let value = head.fields[place].value
        guard let length = ContentLength.read(bytes, value), length <= limits.body
        else { return nil }
        return length
    }
}

/// The parts of a message that ``StreamFramer`` has parsed, for ``MessageReader``.
package struct MessageHead: Sendable {
    let index: HeadIndex
    let fields: FieldList

    init(_ bytes: Span<UInt8>, _ limits: ReaderLimits) {
        var fields = FieldList()
        index = HeadIndex(bytes, limits, &fields)
        self.fields = fields
    }

    /// Whether the message has more than one field or value with the given name.
    func isRepeated(_ name: HeaderName) -> Bool {
        var count = 0
        for place in 0..<fields.count where fields[place].name == name { count += 1 }
        return count > 1
    }
}
