import Bytes
import SIPGrammar

/// The start line, the header fields and the body of a SIP message, found without judging the message.
///
/// Traces also contain malformed messages, so every message whose first line contains `SIP/2.0` is accepted. A line
/// that begins with a blank continues the field before it. A header line without a name and a colon becomes a field
/// whose name is empty.
package struct SIPOutline {
    package struct Field {
        /// The name without blanks; empty for a line that has no name.
        package let name: Range<Int>
        /// The value: everything between the colon and the next field, including folded lines.
        package let value: Range<Int>
    }

    package let startLine: Range<Int>
    package private(set) var fields: [Field] = []
    package let body: Range<Int>

    /// The result is `nil` for bytes that are no SIP message, such as keep-alives.
    package init?(_ bytes: Span<UInt8>) {
        guard bytes.count > 12, bytes[0].isToken else { return nil }
        let lineEnd = Self.lineEnd(bytes, from: 0)
        startLine = 0..<lineEnd
        guard Self.namesSIP(bytes, startLine) else { return nil }
        var at = Self.nextLine(bytes, from: lineEnd)
        while at < bytes.count {
            let end = Self.lineEnd(bytes, from: at)
            // Only an empty line of CR and LF ends the head, as in the daemon's parser.
            if end == at, at + 1 < bytes.count, bytes[at] == UInt8(ascii: "\r"), bytes[at + 1] == UInt8(ascii: "\n") {
                body = at + 2..<bytes.count
                return
            }
            if let colon = Self.colon(bytes, at..<end) {
                fields.append(Field(name: bytes.trimmed(at..<colon), value: colon + 1..<end))
            } else if at < end, bytes[at].isBlank, let last = fields.popLast() {
                fields.append(Field(name: last.name, value: last.value.lowerBound..<end))
            } else {
                fields.append(Field(name: at..<at, value: at..<end))
            }
            at = Self.nextLine(bytes, from: end)
        }
        body = bytes.count..<bytes.count
    }

    /// The trimmed value of the first field with the given lower-case name, or with its compact form.
    package func value(_ name: StaticString, or compact: StaticString, of bytes: Span<UInt8>) -> Range<Int>? {
        for field in fields
        where bytes.equalsIgnoringCase(field.name, name) || bytes.equalsIgnoringCase(field.name, compact) {
            return bytes.trimmed(field.value)
        }
        return nil
    }

    /// The Call-ID, if the message has one.
    package func callID(of bytes: Span<UInt8>) -> Range<Int>? { value("call-id", or: "i", of: bytes) }

    /// Whether the message is a request or response of the given upper-case method, by CSeq or else by the start line.
    package func isOf(_ method: StaticString, _ bytes: Span<UInt8>) -> Bool {
        let length = method.utf8CodeUnitCount
        if startLine.count > length, Self.equals(bytes, 0..<length, method), bytes[length] == UInt8(ascii: " ") {
            return true
        }
        guard let cseq = value("cseq", or: "cseq", of: bytes), cseq.count > length else { return false }
        return Self.equals(bytes, cseq.upperBound - length..<cseq.upperBound, method)
    }

    private static func equals(_ bytes: Span<UInt8>, _ range: Range<Int>, _ text: StaticString) -> Bool {
        for index in range where bytes[index] != text.byte(at: index - range.lowerBound) { return false }
        return true
    }

    private static func namesSIP(_ bytes: Span<UInt8>, _ line: Range<Int>) -> Bool {
        guard line.count >= 7 else { return false }
        for start in [line.lowerBound, line.upperBound - 7] where bytes.equalsIgnoringCase(start..<start + 7, "sip/2.0")
        {
            return true
        }
        let trimmed = bytes.trimmed(line)
        return trimmed.count >= 7
            && bytes.equalsIgnoringCase(trimmed.upperBound - 7..<trimmed.upperBound, "sip/2.0")
    }

    /// The index at which the line ends: its LF, or the CR before the LF.
    static func lineEnd(_ bytes: Span<UInt8>, from start: Int) -> Int {
        guard let feed = bytes.firstIndex(of: UInt8(ascii: "\n"), in: start..<bytes.count) else { return bytes.count }
        return feed > start && bytes[feed - 1] == UInt8(ascii: "\r") ? feed - 1 : feed
    }

    static func nextLine(_ bytes: Span<UInt8>, from end: Int) -> Int {
        var index = end
        if index < bytes.count, bytes[index] == UInt8(ascii: "\r") { index += 1 }
        return index < bytes.count ? index + 1 : index
    }

    /// The index of the colon after a field's name; `nil` if the line does not begin with a name.
    private static func colon(_ bytes: Span<UInt8>, _ line: Range<Int>) -> Int? {
        var index = line.lowerBound
        while index < line.upperBound, bytes[index].isToken { index += 1 }
        guard index > line.lowerBound else { return nil }
        while index < line.upperBound, bytes[index].isBlank { index += 1 }
        return index < line.upperBound && bytes[index] == UInt8(ascii: ":") ? index : nil
    }
}
