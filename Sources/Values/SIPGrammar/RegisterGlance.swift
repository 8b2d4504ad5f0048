package import Addressing
import Bytes

/// Finds only the rows of a REGISTER that a refusal repeats. For overload, when more REGISTERs arrive than can be
/// parsed and refused.
///
/// It recognises the usual form of phones over UDP, and leaves other forms to the full parser: several Vias, folded
/// rows, a client that does not ask for `rport`.
package struct RegisterGlance {
    private let via, from, to, callID, cseq: Range<Int>
    /// The end of `;rport` in the Via.
    private let rportEnd: Int
    private let uri: Range<Int>

    package init?(_ bytes: Span<UInt8>) {
        guard bytes.hasPrefix(Self.method, at: 0) else { return nil }
        var via, from, to, callID, cseq: Range<Int>?
        var start = 0
        while true {
            let end = bytes.nextControl(from: start, to: bytes.count)
            guard end + 1 < bytes.count, bytes[end] == UInt8(ascii: "\r"), bytes[end + 1] == UInt8(ascii: "\n") else {
                return nil
            }
            guard end > start else { break }
            let row = start..<end + 2
            let isFree =
                switch bytes[start] | 0x20 {
                case UInt8(ascii: "v"): Self.take(row, "via", "v", bytes, &via)
                case UInt8(ascii: "f"): Self.take(row, "from", "f", bytes, &from)
                case UInt8(ascii: "t"): Self.take(row, "to", "t", bytes, &to)
                case UInt8(ascii: "i"): Self.take(row, "i", "i", bytes, &callID)
                case UInt8(ascii: "c"):
                    Self.take(row, "call-id", "call-id", bytes, &callID) && Self.take(row, "cseq", "cseq", bytes, &cseq)
                // A fold, or a line that resembles one.
                case 0x20...0x2f: false
                default: true
                }
            guard isFree else { return nil }
            start = end + 2
        }
        guard let via, let from, let to, let callID, let cseq,
            let uri = Self.uri(in: to, bytes), let rportEnd = Self.rportEnd(in: via, bytes)
        else { return nil }
        (self.via, self.from, self.to, self.callID, self.cseq) = (via, from, to, callID, cseq)
        (self.uri, self.rportEnd) = (uri, rportEnd)
    }

    /// Records a row that has one of two names; false if such a row was already found.
    private static func take(
        _ row: Range<Int>, _ name: StaticString, _ short: StaticString, _ bytes: Span<UInt8>, _ found: inout Range<Int>?
    ) -> Bool {
        guard
            bytes.hasPrefix(name, at: row.lowerBound, before: ":")
                || bytes.hasPrefix(short, at: row.lowerBound, before: ":")
        else { return true }
        guard found == nil else { return false }
        found = row
        return true
    }

    /// The URI in To, which has no tag: a REGISTER is not in a dialog.
    private static func uri(in row: Range<Int>, _ bytes: Span<UInt8>) -> Range<Int>? {
        var begin: Int?
        for index in row {
            if bytes[index] == UInt8(ascii: "<") {
                guard begin == nil else { return nil }
                begin = index + 1
            } else if bytes[index] == UInt8(ascii: ">"), let begin {
                // Only the row's end may follow it.
                return index + 3 == row.upperBound ? begin..<index : nil
            } else if bytes[index] == UInt8(ascii: "\"") {
                return nil
            }
        }
        return nil
    }

    private static func rportEnd(in row: Range<Int>, _ bytes: Span<UInt8>) -> Int? {
        for index in row {
            if bytes[index] == UInt8(ascii: ",") { return nil }
            guard bytes[index] == UInt8(ascii: ";"), bytes.hasPrefix("rport", at: index + 1) else { continue }
            let end = index + 6
            guard end < row.upperBound, bytes[end] == UInt8(ascii: ";") || bytes[end] == UInt8(ascii: "\r") else {
                continue
            }
            for rest in end..<row.upperBound where bytes[rest] == UInt8(ascii: ",") { return nil }
            return end
        }
        return nil
    }

    private static let method: StaticString = "register "

    // MARK: What it tells

    package func uri(in bytes: Span<UInt8>) -> SIPURI? { SIPURI(ByteString(copying: bytes.extracting(uri))) }

    /// The value of Call-ID, which is the same in all REGISTERs of one phone.
    package func callID(in bytes: Span<UInt8>) -> Range<Int> {
        var (start, end) = (callID.lowerBound, callID.upperBound)
        while start < end, bytes[start] != UInt8(ascii: ":") { start += 1 }
        repeat { start += 1 } while start < end && bytes[start] <= 0x20
        while end > start, bytes[end - 1] <= 0x20 { end -= 1 }
        return start..<max(start, end)
    }

    /// 503 with Retry-After, for its source.
    package func refusal(in bytes: Span<UInt8>, retryAfter seconds: Int, tag: UInt32, source: Endpoint) -> [UInt8] {
        var answer: [UInt8] = []
        answer.reserveCapacity(via.count + from.count + to.count + callID.count + cseq.count + 192)
        answer += "SIP/2.0 503 Service Unavailable\r\n".utf8
        answer.append(bytes, via.lowerBound..<rportEnd)
        answer += "=\(source.port);received=\(source.address)".utf8
        answer.append(bytes, rportEnd..<via.upperBound)
        answer.append(bytes, from)
        answer.append(bytes, to.lowerBound..<to.upperBound - 2)
        answer += ";tag=\(String(tag, radix: 16))\r\n".utf8
        answer.append(bytes, callID)
        answer.append(bytes, cseq)
        answer += "Retry-After: \(seconds)\r\nContent-Length: 0\r\n\r\n".utf8
        return answer
    }
}

extension Span<UInt8> {
    /// Whether these letters are at this place in any case, followed by that byte if one is given. The letters are
    /// lower case.
    fileprivate func hasPrefix(_ text: StaticString, at start: Int, before next: Unicode.Scalar? = nil) -> Bool {
        let count = text.utf8CodeUnitCount
        guard start + count < self.count else { return false }
        let isThere = text.withUTF8Buffer { letters in
            for index in 0..<count where unsafe self[start + index] | 0x20 != letters[index] | 0x20 { return false }
            return true
        }
        guard isThere, let next else { return isThere }
        return self[start + count] == UInt8(ascii: next)
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        for index in range { append(bytes[index]) }
    }
}
