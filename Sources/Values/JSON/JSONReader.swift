import Bytes

/// Reads a JSON text (RFC 8259) token by token. The reader is strict, does not recurse, and allocates no memory for
/// skipped values.
///
/// Objects with duplicate names are refused.
package struct JSONReader {
    package struct Limits: Sendable {
        package var bytes = 1 << 20
        /// The maximum nesting depth of arrays and objects; at most 64.
        package var depth = 32
        /// The maximum number of values; members, elements, arrays and objects count.
        package var values = 50_000

        package init() {}
    }

    package enum Token: Hashable, Sendable {
        case objectStart, objectEnd, arrayStart, arrayEnd
        /// The name of an object's member; the value of the member follows.
        case key(Text)
        case string(Text)
        case number(Range<Int>)
        case bool(Bool)
        case null
        /// The end of the text.
        case end
    }

    /// The range of a string's characters in the input, without quotes.
    package struct Text: Hashable, Sendable {
        let range: Range<Int>
        let hasEscapes: Bool
    }

    private enum Expectation {
        case value
        /// After `[`: a value or the end of the array.
        case valueOrEnd
        /// After `{`: a member or the end of the object.
        case keyOrEnd
        case commaOrEnd
        case nothing
    }

    let bytes: [UInt8]
    private let limits: Limits
    private var index = 0
    private var expectation = Expectation.value
    package private(set) var depth = 0
    /// One bit for each open array (0) or object (1); the lowest bit is the innermost.
    private var objects: UInt64 = 0
    private var count = 0
    private var names = JSONNames()

    package init(_ bytes: [UInt8], limits: Limits = Limits()) throws(JSONError) {
        guard bytes.count <= limits.bytes else { throw JSONError(.tooLong, at: limits.bytes) }
        guard (try? UTF8Span(validating: bytes.span)) != nil else { throw JSONError(.encoding, at: 0) }
        self.bytes = bytes
        self.limits = limits
    }

    // MARK: Tokens

    /// Reads the next token; after the end of the text, always ``Token/end``.
    package mutating func next() throws(JSONError) -> Token {
        skipBlanks()
        switch expectation {
        case .value: return try value()
        case .valueOrEnd: return peek == UInt8(ascii: "]") ? close(.arrayEnd) : try value()
        case .keyOrEnd: return peek == UInt8(ascii: "}") ? close(.objectEnd) : try key()
        case .commaOrEnd: return try afterValue()
        case .nothing:
            guard index == bytes.count else { throw unexpected }
            return .end
        }
    }

    /// Skips a value of any kind. Precondition: the next token begins a value.
    package mutating func skipValue() throws(JSONError) {
        let outside = depth
        repeat {
            guard try next() != .end else { return }
        } while depth > outside
    }

    private mutating func afterValue() throws(JSONError) -> Token {
        let isInObject = objects & 1 == 1
        switch peek {
        case UInt8(ascii: ","):
            index += 1
            skipBlanks()
            return isInObject ? try key() : try value()
        case UInt8(ascii: "}") where isInObject: return close(.objectEnd)
        case UInt8(ascii: "]") where !isInObject: return close(.arrayEnd)
        default: throw unexpected
        }
    }

    private mutating func key() throws(JSONError) -> Token {
        guard peek == UInt8(ascii: "\"") else { throw unexpected }
        let start = index
        let text = try string()
        guard names.add(text, at: depth, in: bytes) else { throw JSONError(.repeatedName, at: start) }
        skipBlanks()
        guard peek == UInt8(ascii: ":") else { throw unexpected }
        index += 1
        expectation = .value
        return .key(text)
    }

    private mutating func value() throws(JSONError) -> Token {
        count += 1
        guard count <= limits.values else { throw JSONError(.tooManyValues, at: index) }
        switch peek {
        case UInt8(ascii: "{"): return try open(.objectStart)
        case UInt8(ascii: "["): return try open(.arrayStart)
        case UInt8(ascii: "\""):
            let text = try string()
            valueEnded()
            return .string(text)
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func open(_ token: Token) throws(JSONError) -> Token {
        guard depth < min(limits.depth, 64) else { throw JSONError(.tooDeep, at: index) }
        index += 1
        depth += 1
        objects = objects << 1 | (token == .objectStart ? 1 : 0)
        expectation = token == .objectStart ? .keyOrEnd : .valueOrEnd
        return token
    }

    private mutating func close(_ token: Token) -> Token {
        index += 1
        if token == .objectEnd { names.end(at: depth) }
        depth -= 1
        objects >>= 1
        valueEnded()
        return token
    }

    private mutating func valueEnded() { expectation = depth == 0 ? .nothing : .commaOrEnd }

    // MARK: Scalars

    private mutating func word(_ word: StaticString, _ token: Token) throws(JSONError) -> Token {
        for wanted in word.utf8 {
            guard peek == wanted else { throw unexpected }
            index += 1
        }
        valueEnded()
        return token
    }

    private mutating func number() throws(JSONError) -> Token {
        let start = index
        if peek == UInt8(ascii: "-") { index += 1 }
        if peek == UInt8(ascii: "0") { index += 1 } else { try digits() }
        if peek == UInt8(ascii: ".") {
            index += 1
            try digits()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            index += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { index += 1 }
            try digits()
        }
        valueEnded()
        return .number(start..<index)
    }

    private mutating func digits() throws(JSONError) {
        let start = index
        while let byte = peek, byte &- UInt8(ascii: "0") < 10 { index += 1 }
        guard index > start else { throw unexpected }
    }

    private mutating func string() throws(JSONError) -> Text {
        index += 1
        let start = index
        var hasEscapes = false
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                index += 1
                return Text(range: start..<index - 1, hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                try escape()
            case 0..<0x20: throw unexpected
            default: index += 1
            }
        }
        throw unexpected
    }

    private mutating func escape() throws(JSONError) {
        index += 1
        switch peek {
        case UInt8(ascii: "u"):
            let start = index
            let unit = try codeUnit()
            guard !UTF16.isTrailSurrogate(unit) else { throw JSONError(.loneSurrogate, at: start) }
            guard UTF16.isLeadSurrogate(unit) else { return }
            guard peek == UInt8(ascii: "\\") else { throw JSONError(.loneSurrogate, at: start) }
            index += 1
            guard peek == UInt8(ascii: "u"), UTF16.isTrailSurrogate(try codeUnit()) else {
                throw JSONError(.loneSurrogate, at: start)
            }
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            index += 1
        default: throw unexpected
        }
    }

    /// Reads the four hexadecimal digits of an escape `\uXXXX`. Precondition: the next byte is the escape's `u`.
    private mutating func codeUnit() throws(JSONError) -> UInt16 {
        index += 1
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = peek?.hexValue else { throw unexpected }
            unit = unit << 4 | UInt16(digit)
            index += 1
        }
        return unit
    }

    // MARK: Bytes

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    private var unexpected: JSONError { JSONError(index < bytes.count ? .unexpectedByte : .incomplete, at: index) }

    private mutating func skipBlanks() {
        while let byte = peek, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { index += 1 }
    }
}

extension StaticString {
    fileprivate var utf8: some Sequence<UInt8> {
        (0..<utf8CodeUnitCount).lazy.map { index in unsafe self.utf8Start[index] }
    }
}
