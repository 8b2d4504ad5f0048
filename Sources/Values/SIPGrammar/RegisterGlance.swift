package import Addressing
package import Bytes

/// A REGISTER whose header fields were found but hardly parsed, so that the daemon can refuse it quickly. The
/// daemon uses ``RegisterGlance`` in an overload, when more REGISTERs arrive than it can parse.
///
/// ``RegisterGlance`` supports only REGISTERs in the form that phones usually send over UDP. For a REGISTER with folded
/// lines, for example, or with a Via without `rport`, ``MessageReader`` is needed.
package struct RegisterGlance {
    private let via, from, to, callID, cseq: HeaderField
    /// The index after `;rport` in the Via.
    private let rportEnd: Int
    private let uri: Range<Int>

    /// Finds the header fields of a REGISTER. The result is `nil` if a needed field is missing or repeated, or if the
    /// head has a forbidden byte.
    package init?(
        _ bytes: Span<UInt8>, via: HeaderField, from: HeaderField, to: HeaderField, callID: HeaderField,
        cseq: HeaderField
    ) {
        for row in [via.row, from.row, to.row, callID.row, cseq.row] {
            // The only line end must be at the end of the line, because folded lines are not supported.
            guard bytes.nextControl(from: row.lowerBound, to: row.upperBound) == row.upperBound - 2 else { return nil }
        }
        guard let uri = Self.uri(in: to.value, bytes), let rportEnd = Self.rportEnd(in: via.row, bytes) else {
            return nil
        }
        (self.via, self.from, self.to, self.callID, self.cseq) = (via, from, to, callID, cseq)
        (self.uri, self.rportEnd) = (uri, rportEnd)
    }

    /// The range of the URI in To; `nil` if To has a tag, because a REGISTER belongs to no dialog.
    private static func uri(in value: Range<Int>, _ bytes: Span<UInt8>) -> Range<Int>? {
        var begin: Int?
        for index in value {
            if bytes[index] == UInt8(ascii: "<") {
                guard begin == nil else { return nil }
                begin = index + 1
            } else if bytes[index] == UInt8(ascii: ">"), let begin {
                return index + 1 == value.upperBound ? begin..<index : nil
            } else if bytes[index] == UInt8(ascii: "\"") {
                return nil
            }
        }
        return nil
    }

    private static func rportEnd(in row: Range<Int>, _ bytes: Span<UInt8>) -> Int? {
        for index in row {
            let end = index + 6
            guard end < row.upperBound, bytes[index] == UInt8(ascii: ";"),
                bytes.equalsIgnoringCase(index + 1..<end, "rport"),
                bytes[end] == UInt8(ascii: ";") || bytes[end] == UInt8(ascii: "\r")
            else { continue }
            return end
        }
        return nil
    }

    // MARK: Values

    package func uri(in bytes: Span<UInt8>) -> SIPURI? { SIPURI(ByteString(copying: bytes.extracting(uri))) }

    /// The Call-ID, which all REGISTERs of one phone share.
    package func callID(in bytes: Span<UInt8>) -> ByteString { ByteString(copying: bytes.extracting(callID.value)) }

    /// Makes a 503 with Retry-After for the REGISTER from the address `source`.
    package func refusal(in bytes: Span<UInt8>, retryAfter seconds: Int, tag: UInt32, source: Endpoint) -> [UInt8] {
        var answer: [UInt8] = []
        answer.reserveCapacity([via, from, to, callID, cseq].reduce(192) { $0 + $1.row.count })
        answer += "SIP/2.0 503 Service Unavailable\r\n".utf8
        answer.append(bytes, via.row.lowerBound..<rportEnd)
        answer += "=\(source.port);received=\(source.address)".utf8
        answer.append(bytes, rportEnd..<via.row.upperBound)
        answer.append(bytes, from.row)
        answer.append(bytes, to.row.lowerBound..<to.row.upperBound - 2)
        answer += ";tag=\(String(tag, radix: 16))\r\n".utf8
        answer.append(bytes, callID.row)
        answer.append(bytes, cseq.row)
        answer += "Retry-After: \(seconds)\r\nContent-Length: 0\r\n\r\n".utf8
        return answer
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        for index in range { append(bytes[index]) }
    }
}
