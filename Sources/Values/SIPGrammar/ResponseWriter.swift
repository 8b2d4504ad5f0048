package import Bytes

// The functions of `ResponseWriter` make responses from the header fields of the request (RFC 3261 section 8.2.6.2).

extension MessageFrame {
    /// Makes a response without a body to the request in the message frame.
    ///
    /// Via, From, To, Call-ID and CSeq are copied unchanged. A 100 also repeats Timestamp (RFC 3261 section 8.2.6.1).
    ///
    /// - Parameters:
    ///   - status: the status code of the response, with its ``Status/reasonPhrase``.
    ///   - toTag: the tag for To; `nil` for a 100, and if the request's To already has a tag.
    ///   - viaAddition: the result of ``SIPRequest/viaAddition(source:)`` for the topmost Via.
    ///   - added: further fields, written before Content-Length.
    /// - Returns: the whole message, ready to send.
    package func response(
        _ status: Status, toTag: ToTag? = nil, viaAddition: ViaAddition = .none, fields added: [AddedField] = []
    ) -> [UInt8] {
        var size = 0
        for field in added { size += field.name.utf8CodeUnitCount + field.value.count + 4 }
        return response(status, toTag: toTag, viaAddition: viaAddition, reserving: size) { out in
            for field in added { out.append(field) }
        }
    }

    /// Makes a response like ``response(_:toTag:viaAddition:fields:)``, with header lines that `appendFields` writes.
    /// The argument `size` estimates how many bytes `appendFields` writes.
    package func response(
        _ status: Status, toTag: ToTag?, viaAddition: ViaAddition, reserving size: Int,
        _ appendFields: (inout ByteSink) -> Void
    ) -> [UInt8] {
        let phrase = status.reasonPhrase
        var size = size + 64 + phrase.utf8CodeUnitCount + ViaAddition.longest + (toTag == nil ? 0 : ToTag.size)
        for field in fields where field.name.isRepeated(in: status) { size += field.row.count }
        return [UInt8](capacity: size) { out in
            appendResponse(status, phrase, toTag: toTag, viaAddition: viaAddition, to: &out)
            appendFields(&out)
            out.append(contentLength: 0)
        }
    }

    /// Appends the status line, and the header fields that a response copies from its request.
    private func appendResponse(
        _ status: Status, _ phrase: StaticString, toTag: ToTag?, viaAddition: ViaAddition, to out: inout ByteSink
    ) {
        out.append("SIP/2.0 ")
        out.append(decimal: status.code)
        out.append(" ")
        out.append(phrase)
        out.append("\r\n")
        var written = RowSet()
        var rows = RowRun(bytes)
        for field in fields where !field.row.isEmpty && field.name.isRepeated(in: status) {
            let isFirst = written.insert(field.name)
            switch field.name {
            case .via where isFirst: append(viaRow: field, addition: viaAddition, in: &rows, to: &out)
            case .via: rows.append(field.row, to: &out)
            case .to where isFirst && toTag != nil:
                rows.append(field.row.lowerBound..<field.value.upperBound, to: &out)
                rows.end(&out)
                if let toTag { toTag.append(to: &out) }
                rows.append(field.value.upperBound..<field.row.upperBound, to: &out)
            default: if isFirst { rows.append(field.row, to: &out) }
            }
        }
        rows.end(&out)
    }

    /// Appends the header line of the topmost Via, with new parameters after its first value.
    func append(viaRow field: HeaderField, addition: ViaAddition, in rows: inout RowRun, to out: inout ByteSink) {
        guard addition != .none else { return rows.append(field.row, to: &out) }
        rows.append(field.row.lowerBound..<field.value.lowerBound, to: &out)
        rows.end(&out)
        out.append(viaValue: bytes[field.value], addition: addition)
        rows.append(field.value.upperBound..<field.row.upperBound, to: &out)
    }
}

extension SIPRequest {
    /// Makes a response to the request. If To already has a tag, `toTag` is ignored.
    package func response(
        _ status: Status, toTag: ToTag? = nil, viaAddition: ViaAddition = .none, fields added: [AddedField] = []
    ) -> [UInt8] {
        frame.response(status, toTag: to.tag == nil ? toTag : nil, viaAddition: viaAddition, fields: added)
    }

    /// Makes a response to the request. The closure `appendFields` writes further fields as whole header lines.
    package func response(
        _ status: Status, toTag: ToTag?, viaAddition: ViaAddition, reserving size: Int,
        _ appendFields: (inout ByteSink) -> Void
    ) -> [UInt8] {
        frame.response(
            status, toTag: to.tag == nil ? toTag : nil, viaAddition: viaAddition, reserving: size, appendFields)
    }
}

/// A tag that the daemon makes for To (RFC 3261 section 19.3): sixteen hexadecimal digits.
package struct ToTag: Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }

    /// The length in bytes of the parameter `;tag=...`.
    fileprivate static let size = 21

    fileprivate func append(to out: inout ByteSink) {
        out.append(";tag=")
        out.append(number.hexDigits.span)
    }
}

// MARK: Pieces

/// Copies parts of a message into the output, and joins parts that are adjacent in the message.
struct RowRun {
    private let bytes: ByteString
    private var waiting = 0..<0

    init(_ bytes: ByteString) { self.bytes = bytes }

    /// How many bytes of the message wait to be copied.
    var count: Int { waiting.count }

    mutating func append(_ part: Range<Int>, to out: inout ByteSink) {
        if part.lowerBound == waiting.upperBound {
            waiting = waiting.lowerBound..<part.upperBound
        } else {
            end(&out)
            waiting = part
        }
    }

    /// Copies the waiting bytes; called before bytes are written that do not come from the message.
    mutating func end(_ out: inout ByteSink) {
        out.append(bytes, waiting)
        waiting = waiting.upperBound..<waiting.upperBound
    }
}

/// The header names that were already written, so that a field that may occur only once is not repeated.
private struct RowSet {
    private var bits: UInt64 = 0

    /// Inserts a header name, and returns whether the name is new.
    mutating func insert(_ name: HeaderName) -> Bool {
        defer { bits |= name.bit }
        return bits & name.bit == 0
    }
}

extension HeaderName {
    fileprivate func isRepeated(in status: Status) -> Bool {
        switch self {
        case .via, .from, .to, .callID, .cseq: true
        case .timestamp: status == .trying
        default: false
        }
    }
}

extension ByteSink {
    /// Appends a header field as a header line.
    package mutating func append(_ field: AddedField) { append(field.name, field.value) }

    /// Appends a header line.
    package mutating func append(_ name: StaticString, _ value: ByteString) {
        append(name)
        append(": ")
        append(value)
        append("\r\n")
    }

    /// Appends Content-Length, which is the last header line, and the empty line.
    mutating func append(contentLength: Int) {
        append("Content-Length: ")
        append(decimal: contentLength)
        append("\r\n\r\n")
    }
}
