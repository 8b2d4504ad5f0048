import SIPGrammar

/// Where the start line and each header field stand: one pass over the head, nothing decoded, no libosip2.
struct HeaderScan {
    private(set) var startLine = 0..<0
    private(set) var fields: [HeaderField] = []
    private(set) var bodyStart = 0
    private(set) var hasPercent = false
    /// The rule the head broke; the fields found before that point are there nevertheless.
    private(set) var failure: UnusableMessage.Reason?

    init(_ bytes: Span<UInt8>, limits: ReaderLimits) {
        fields.reserveCapacity(24)
        guard let end = lineEnd(bytes, from: 0) else {
            failure = failure ?? .startLine
            return
        }
        startLine = 0..<end
        var row = end + 2
        while true {
            guard row < limits.head else {
                failure = .headTooLarge
                return
            }
            guard let end = rowEnd(bytes, from: row) else {
                failure = failure ?? (bytes.count > limits.head ? .headTooLarge : .headerSyntax(.other))
                return
            }
            if end == row {
                bodyStart = row + 2
                if bodyStart > limits.head { failure = .headTooLarge }
                return
            }
            guard fields.count < limits.headerFields else {
                failure = .tooManyHeaders
                return
            }
            addRow(bytes, row..<end + 2)
            row = end + 2
        }
    }

    /// Index of the CR that ends the line; `nil` at the end of the bytes or at a byte that may not stand in a head.
    private mutating func lineEnd(_ bytes: Span<UInt8>, from start: Int) -> Int? {
        var index = start
        while index < bytes.count {
            let byte = bytes[index]
            if byte < 32 {
                if byte == UInt8(ascii: "\r"), index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: "\n") {
                    return index
                }
                guard byte == UInt8(ascii: "\t") else {
                    failure = .forbiddenByte
                    return nil
                }
            } else if byte == UInt8(ascii: "%") {
                hasPercent = true
            }
            index += 1
        }
        return nil
    }

    /// The end of a row with the lines folded onto it (RFC 3261 section 7.3.1).
    private mutating func rowEnd(_ bytes: Span<UInt8>, from start: Int) -> Int? {
        var end = lineEnd(bytes, from: start)
        while let fold = end, fold > start, fold + 2 < bytes.count, Self.isBlank(bytes[fold + 2]) {
            end = lineEnd(bytes, from: fold + 2)
        }
        return end
    }

    private mutating func addRow(_ bytes: Span<UInt8>, _ row: Range<Int>) {
        var colon = row.lowerBound
        while colon < row.upperBound, bytes[colon] != UInt8(ascii: ":") { colon += 1 }
        guard colon < row.upperBound - 2 || (colon < row.upperBound && bytes[colon] == UInt8(ascii: ":")) else {
            failure = failure ?? .headerSyntax(.other)
            return
        }
        var nameEnd = colon
        while nameEnd > row.lowerBound, Self.isBlank(bytes[nameEnd - 1]) { nameEnd -= 1 }
        for index in row.lowerBound..<nameEnd where bytes[index] <= 32 {
            failure = failure ?? .headerSyntax(.other)
            return
        }
        guard nameEnd > row.lowerBound else {
            failure = failure ?? .headerSyntax(.other)
            return
        }
        let name = HeaderNames.name(of: bytes, row.lowerBound..<nameEnd)
        let value = Self.trimmed(bytes, colon + 1..<row.upperBound - 2)
        switch name {
        case .via, .route, .recordRoute, .path, .contact: addValues(bytes, name, row, value)
        default: fields.append(HeaderField(name: name, row: row, value: value))
        }
    }

    /// Splits at commas outside quotes and angle brackets.
    private mutating func addValues(_ bytes: Span<UInt8>, _ name: HeaderName, _ row: Range<Int>, _ value: Range<Int>) {
        var rest = row
        var start = value.lowerBound
        var index = start
        var isQuoted = false
        var isBracketed = false
        while index < value.upperBound {
            switch bytes[index] {
            case UInt8(ascii: "\\") where isQuoted: index += 1
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: "<") where !isQuoted: isBracketed = true
            case UInt8(ascii: ">") where !isQuoted: isBracketed = false
            case UInt8(ascii: ",") where !isQuoted && !isBracketed:
                fields.append(HeaderField(name: name, row: rest, value: Self.trimmed(bytes, start..<index)))
                rest = row.upperBound..<row.upperBound
                start = index + 1
            default: break
            }
            index += 1
        }
        fields.append(HeaderField(name: name, row: rest, value: Self.trimmed(bytes, start..<value.upperBound)))
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 32 || byte == 9 }

    private static func trimmed(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
        var start = range.lowerBound
        var end = range.upperBound
        while start < end, isSpace(bytes[start]) { start += 1 }
        while end > start, isSpace(bytes[end - 1]) { end -= 1 }
        return start..<max(start, end)
    }

    /// Blank, or part of a fold.
    private static func isSpace(_ byte: UInt8) -> Bool { isBlank(byte) || byte == 13 || byte == 10 }
}
