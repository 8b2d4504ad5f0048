import Bytes
import SIPGrammar

/// The positions of a message's start line and header fields, and the first rule that the head violates.
///
/// One pass over the head creates the ``HeadIndex``, without decoding values.
struct HeadIndex {
    enum StartLine {
        case none
        case request(method: Range<Int>, uri: Range<Int>)
        case response(status: UInt16)
    }

    private(set) var startLine = StartLine.none
    private(set) var headersStart = 0
    /// The index of the body; without an empty line, the index after the last readable header field.
    private(set) var bodyStart = 0
    /// Whether the empty line at the end of the head was found.
    private(set) var hasEnd = false
    /// The first rule that the head violates; reading continues, so that the message can be answered.
    private(set) var fault: Fault?
    /// Whether the first line is a start line of any SIP version.
    private(set) var isSIP = false
    private(set) var isAcknowledgement = false

    /// For each header name, by its raw value, the index of its first field; -1 for no field.
    private var firstPlaces = [64 of Int16](repeating: -1)
    private let limits: ReaderLimits
    private var hasForbiddenByte = false

    struct Fault {
        let reason: UnusableMessage.Reason
        let status: Status
    }

    /// The index of the first field with the given name; `nil` if no field has the name.
    func place(of name: HeaderName) -> Int? {
        let place = Int(firstPlaces[Int(name.rawValue)])
        return place >= 0 ? place : nil
    }

    var hasCredentials: Bool { contains(.authorization) || contains(.proxyAuthorization) }

    func contains(_ name: HeaderName) -> Bool { firstPlaces[Int(name.rawValue)] >= 0 }

    mutating func fail(_ reason: UnusableMessage.Reason, _ status: Status = .badRequest) {
        if fault == nil { fault = Fault(reason: reason, status: status) }
    }

    // MARK: Scanning

    /// Reads the start line and the header fields of a message. The header fields are appended to `fields`, which must
    /// be empty.
    init(_ bytes: Span<UInt8>, _ limits: ReaderLimits, _ fields: inout FieldList) {
        self.limits = limits
        let end = min(bytes.count, limits.head)
        guard let lineEnd = rowEnd(bytes, from: 0, to: end, folding: false) else {
            bodyStart = end
            fail(isTooLong(bytes) ? .headTooLarge : .notSIP, 513)
            return
        }
        readStartLine(bytes, 0..<lineEnd)
        headersStart = lineEnd + 2
        bodyStart = headersStart
        guard isSIP else { return }
        var rowCount = 0
        while true {
            let start = bodyStart
            if start + 1 < end, bytes[start] == UInt8(ascii: "\r"), bytes[start + 1] == UInt8(ascii: "\n") {
                bodyStart = start + 2
                hasEnd = true
                break
            }
            guard let valueEnd = rowEnd(bytes, from: start, to: end, folding: true) else {
                if isTooLong(bytes) { fail(.headTooLarge, 513) } else { fail(.headerSyntax(.other)) }
                break
            }
            rowCount += 1
            guard rowCount <= limits.headerFields, fields.count < limits.values else {
                fail(.tooManyHeaders)
                break
            }
            bodyStart = valueEnd + 2
            readRow(bytes, start..<bodyStart, valueEnd: valueEnd, &fields)
        }
        if hasForbiddenByte { fault = Fault(reason: .forbiddenByte, status: .badRequest) }
    }

    private func isTooLong(_ bytes: Span<UInt8>) -> Bool { bytes.count > limits.head }

    /// The index of the CR that ends a header field with all its folds. A forbidden control byte in the header field is
    /// recorded as a fault.
    private mutating func rowEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int, folding: Bool) -> Int? {
        var index = start
        while true {
            index = bytes.nextControl(from: index, to: end)
            guard index < end else { return nil }
            // If a CR is the last byte, its LF may not have arrived yet.
            if bytes[index] == UInt8(ascii: "\r"), index + 1 == end { return nil }
            if bytes[index] == UInt8(ascii: "\r"), bytes[index + 1] == UInt8(ascii: "\n") {
                guard folding, index + 2 < end, bytes[index + 2].isBlank else { return index }
                index += 2
            } else if bytes[index] != UInt8(ascii: "\t") {
                hasForbiddenByte = true
            }
            index += 1
        }
    }

    private mutating func note(_ field: HeaderField, _ fields: inout FieldList) {
        let place = Int(field.name.rawValue)
        if firstPlaces[place] < 0 {
            firstPlaces[place] = Int16(fields.count)
        } else if field.name.isSingle {
            fail(.repeated(field.name))
        }
        fields.append(field)
    }

    private mutating func readRow(
        _ bytes: Span<UInt8>, _ row: Range<Int>, valueEnd: Int, _ fields: inout FieldList
    ) {
        guard let (name, colon) = HeaderNames.read(bytes, row.lowerBound..<valueEnd) else {
            fail(.headerSyntax(.other))
            return
        }
        let value = bytes.fieldValue(from: colon + 1, to: valueEnd)
        guard name.isList else {
            note(HeaderField(name: name, row: row, value: value), &fields)
            return
        }
        readList(bytes, name, row, value, &fields)
    }

    /// Reads a header field with a list of values, separated by commas outside quotes and angle brackets.
    private mutating func readList(
        _ bytes: Span<UInt8>, _ name: HeaderName, _ row: Range<Int>, _ value: Range<Int>, _ fields: inout FieldList
    ) {
        // The fast path is for fields with one value and without quotes, as most fields are.
        if bytes.firstPlace(of: UInt8(ascii: ","), or: UInt8(ascii: "\""), in: value) == value.upperBound {
            noteListed(name, row, value, &fields)
            return
        }
        var start = value.lowerBound
        var index = start
        var row = row
        while true {
            index = bytes.firstPlace(
                of: UInt8(ascii: "\""), UInt8(ascii: "<"), or: UInt8(ascii: ","), in: index..<value.upperBound)
            guard index < value.upperBound else { break }
            switch bytes[index] {
            case UInt8(ascii: "\""):
                guard let quoteEnd = bytes.quoteEnd(from: index + 1, to: value.upperBound) else {
                    fail(.headerSyntax(name))
                    note(HeaderField(name: name, row: row, value: bytes.trimmed(start..<value.upperBound)), &fields)
                    return
                }
                index = quoteEnd
                continue
            case UInt8(ascii: "<"):
                index = bytes.firstIndex(of: UInt8(ascii: ">"), in: index..<value.upperBound) ?? value.upperBound
                continue
            case UInt8(ascii: ","):
                guard fields.count < limits.values else { return fail(.tooManyHeaders) }
                noteListed(name, row, bytes.trimmed(start..<index), &fields)
                row = row.lowerBound..<row.lowerBound
                start = index + 1
            default: break
            }
            index += 1
        }
        noteListed(name, row, bytes.trimmed(start..<value.upperBound), &fields)
    }

    private mutating func noteListed(
        _ name: HeaderName, _ row: Range<Int>, _ value: Range<Int>, _ fields: inout FieldList
    ) {
        if value.isEmpty { fail(.headerSyntax(name)) }
        note(HeaderField(name: name, row: row, value: value), &fields)
    }

    // MARK: Start line

    private mutating func readStartLine(_ bytes: Span<UInt8>, _ line: Range<Int>) {
        if line.count >= 4, bytes.equalsIgnoringCase(0..<4, "sip/") {
            isSIP = true
            readStatusLine(bytes, line)
        } else {
            readRequestLine(bytes, line)
        }
    }

    /// Reads a status line such as `SIP/2.0 200 OK`. The space before an empty reason phrase may be missing.
    private mutating func readStatusLine(_ bytes: Span<UInt8>, _ line: Range<Int>) {
        // An invalid status line needs no answer, because the daemon answers only requests.
        guard line.count >= 11, bytes.equalsIgnoringCase(0..<8, "sip/2.0 "),
            line.count == 11 || bytes[11] == UInt8(ascii: " ")
        else { return fail(bytes.equalsIgnoringCase(0..<min(7, line.count), "sip/2.0") ? .startLine : .version) }
        var code: UInt16 = 0
        for index in 8..<11 {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { return fail(.startLine) }
            code = code * 10 + UInt16(digit)
        }
        guard (100...699).contains(code) else { return fail(.startLine) }
        startLine = .response(status: code)
    }

    /// Reads a request line: `METHOD uri SIP/2.0`, with exactly one space between the parts.
    private mutating func readRequestLine(_ bytes: Span<UInt8>, _ line: Range<Int>) {
        var methodEnd = 0
        while methodEnd < line.upperBound, bytes[methodEnd].isToken { methodEnd += 1 }
        isAcknowledgement = bytes.equalsIgnoringCase(0..<methodEnd, "ack")
        let content = bytes.trimmed(line)
        var versionStart = content.upperBound
        while versionStart > 0, !bytes[versionStart - 1].isBlank { versionStart -= 1 }
        let version = versionStart..<content.upperBound
        isSIP = version.count > 4 && bytes.equalsIgnoringCase(versionStart..<versionStart + 4, "sip/")
        guard isSIP else { return fail(.notSIP) }
        guard bytes.equalsIgnoringCase(version, "sip/2.0") else { return fail(.version, 505) }
        let uri = methodEnd + 1..<max(methodEnd + 1, versionStart - 1)
        guard methodEnd > 0, bytes[methodEnd] == UInt8(ascii: " "), content.count == line.count, !uri.isEmpty,
            bytes[uri.upperBound] == UInt8(ascii: " ")
        else { return fail(.startLine) }
        guard uri.count <= limits.uri else { return fail(.uriTooLong, 414) }
        guard bytes.firstPlace(of: UInt8(ascii: " "), or: UInt8(ascii: "\t"), in: uri) == uri.upperBound else {
            return fail(.startLine)
        }
        startLine = .request(method: 0..<methodEnd, uri: uri)
    }

    // MARK: Answering

    /// Whether the message is a request, but no ACK, and has the header fields that a response copies (RFC 3261 section
    /// 8.2.6.2).
    func isAnswerable(_ bytes: Span<UInt8>, _ fields: HeaderFields) -> Bool {
        guard isSIP, !isAcknowledgement, !isResponse(bytes) else { return false }
        for name in [.via, .from, .to, .callID, .cseq] as [HeaderName] {
            guard let row = place(of: name).map({ fields[$0].row }), !row.isEmpty else { return false }
            // In From and To, a quoted display name may have any byte except CR and LF after a backslash.
            let mayQuote = name == .from || name == .to
            guard !holdsForbiddenByte(bytes, row, unless: mayQuote) else { return false }
        }
        if let cseq = place(of: .cseq).map({ fields[$0].value }), cseq.count > 3 {
            return !bytes.equalsIgnoringCase(cseq.upperBound - 3..<cseq.upperBound, "ack")
        }
        return true
    }

    private func isResponse(_ bytes: Span<UInt8>) -> Bool {
        bytes.count >= 4 && bytes.equalsIgnoringCase(0..<4, "sip/")
    }

    /// Whether the field has a byte that some programs treat as a line end. No response may copy such a byte.
    private func holdsForbiddenByte(_ bytes: Span<UInt8>, _ row: Range<Int>, unless mayQuote: Bool) -> Bool {
        guard hasForbiddenByte else { return false }
        var index = row.lowerBound
        while true {
            index = bytes.nextControl(from: index, to: row.upperBound)
            guard index < row.upperBound else { return false }
            if bytes[index] == UInt8(ascii: "\r"), index + 1 < row.upperBound, bytes[index + 1] == UInt8(ascii: "\n") {
                index += 1
            } else if bytes[index] != UInt8(ascii: "\t"), !mayQuote || !isQuotedPair(bytes, index, row.lowerBound) {
                return true
            }
            index += 1
        }
    }

    /// Whether the control byte at `index` is escaped by a backslash in a quoted string (RFC 3261 section 25.1).
    private func isQuotedPair(_ bytes: Span<UInt8>, _ index: Int, _ start: Int) -> Bool {
        guard bytes[index] != UInt8(ascii: "\r"), bytes[index] != UInt8(ascii: "\n") else { return false }
        var backslashes = 0
        while index - backslashes > start, bytes[index - backslashes - 1] == UInt8(ascii: "\\") { backslashes += 1 }
        return backslashes & 1 == 1
    }
}

extension Span<UInt8> {
    /// The range of a field's value without white space around it. The function is optimised for the usual form: a
    /// value after exactly one space.
    @inline(__always)
    fileprivate func fieldValue(from start: Int, to end: Int) -> Range<Int> {
        if start + 1 < end, self[start] == UInt8(ascii: " "), self[start + 1] > UInt8(ascii: " "),
            self[end - 1] > UInt8(ascii: " ")
        {
            return start + 1..<end
        }
        return trimmed(start..<end)
    }
}
