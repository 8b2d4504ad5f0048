package import Bytes

// Writes responses from the request's own rows (RFC 3261 section 8.2.6.2).

extension MessageFrame {
    /// A response without a body to the request of this frame.
    ///
    /// Via, From, To, Call-ID and CSeq rows are copied unchanged, including compact names and folds; 100 also repeats
    /// Timestamp (RFC 3261 section 8.2.6.1).
    ///
    /// - Parameters:
    ///   - status: The status line's code; its phrase is ``Status/reasonPhrase``.
    ///   - toTag: Added to To; `nil` if the request's To already has a tag, and for 100.
    ///   - viaAddition: The result of ``SIPRequest/viaAddition(source:)`` for the topmost Via.
    ///   - added: Further fields, before Content-Length.
    /// - Returns: The whole message, ready to send.
    package func response(
        _ status: Status, toTag: ToTag? = nil, viaAddition: ViaAddition = .none, fields added: [AddedField] = []
    ) -> [UInt8] {
        var size = 0
        for field in added { size += field.name.utf8CodeUnitCount + field.value.count + 4 }
        return response(status, toTag: toTag, viaAddition: viaAddition, reserving: size) { out in
            for field in added { out.append(field) }
        }
    }

    /// As ``response(_:toTag:viaAddition:fields:)``, but `appendFields` writes the further fields as whole rows, which
    /// need about `size` bytes.
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

    /// Appends the status line and the request's rows.
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

    /// Appends the row of the topmost Via with the addition after its first value.
    func append(viaRow field: HeaderField, addition: ViaAddition, in rows: inout RowRun, to out: inout ByteSink) {
        guard addition != .none else { return rows.append(field.row, to: &out) }
        rows.append(field.row.lowerBound..<field.value.lowerBound, to: &out)
        rows.end(&out)
        out.append(viaValue: bytes[field.value], addition: addition)
        rows.append(field.value.upperBound..<field.row.upperBound, to: &out)
    }
}

extension SIPRequest {
    /// A response to this request. The tag is left out if To has one.
    package func response(
        _ status: Status, toTag: ToTag? = nil, viaAddition: ViaAddition = .none, fields added: [AddedField] = []
    ) -> [UInt8] {
        frame.response(status, toTag: to.tag == nil ? toTag : nil, viaAddition: viaAddition, fields: added)
    }

    /// The same, with fields that are written in place.
    package func response(
        _ status: Status, toTag: ToTag?, viaAddition: ViaAddition, reserving size: Int,
        _ appendFields: (inout ByteSink) -> Void
    ) -> [UInt8] {
        frame.response(
            status, toTag: to.tag == nil ? toTag : nil, viaAddition: viaAddition, reserving: size, appendFields)
    }
}

/// The tag of our own response (RFC 3261 section 19.3): a number, written as sixteen hexadecimal digits.
package struct ToTag: Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }

    /// The length of the parameter in bytes.
    fileprivate static let size = 21

    fileprivate func append(to out: inout ByteSink) {
        out.append(";tag=")
        out.append(number.hexDigits.span)
    }
}

// MARK: Pieces

/// Copies parts of a message; adjacent parts in one piece.
struct RowRun {
    private let bytes: ByteString
    private var waiting = 0..<0

    init(_ bytes: ByteString) { self.bytes = bytes }

    /// How many bytes still have to be copied.
    var count: Int { waiting.count }

    mutating func append(_ part: Range<Int>, to out: inout ByteSink) {
        if part.lowerBound == waiting.upperBound {
            waiting = waiting.lowerBound..<part.upperBound
        } else {
            end(&out)
            waiting = part
        }
    }

    /// Call before other bytes are written.
    mutating func end(_ out: inout ByteSink) {
        out.append(bytes, waiting)
        waiting = waiting.upperBound..<waiting.upperBound
    }
}

/// The header fields that were already written.
private struct RowSet {
    private var bits: UInt64 = 0

    /// Whether the name was not in the set yet.
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
    /// Appends the row of a field.
    package mutating func append(_ field: AddedField) { append(field.name, field.value) }

    /// Appends the row of a field of that name.
    package mutating func append(_ name: StaticString, _ value: ByteString) {
        append(name)
        append(": ")
        append(value)
        append("\r\n")
    }

    /// Appends the last header row and the empty line.
    mutating func append(contentLength: Int) {
        append("Content-Length: ")
        append(decimal: contentLength)
        append("\r\n\r\n")
    }
}
