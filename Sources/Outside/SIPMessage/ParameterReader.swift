import Bytes
import SIPGrammar

extension ValueReader {
    /// The part of a message to which parameters (`;name=value`) belong; each part has its own syntax of parameters.
    enum ParameterPlace {
        /// A URI: names and values may have any bytes up to the next delimiter, and quotes have no meaning.
        case ofURI
        /// A header field: names are tokens, and values may be quoted.
        case ofField
        /// A header field to which the proxy appends parameters: like `ofField`, but a value must not end inside
        /// quotes.
        case growing
    }

    /// Whether the parameters in the range are well-formed and not too many. The range must be empty or begin with `;`.
    ///
    /// A parameter may have an empty value, and a `;` at the end is ignored.
    static func areWellFormed(_ bytes: Span<UInt8>, _ range: Range<Int>, _ place: ParameterPlace) -> Bool {
        let end = range.upperBound
        var count = 0
        var index = range.lowerBound
        while index < end {
            guard bytes[index] == UInt8(ascii: ";"), count < ReaderLimits.parameters else { return false }
            index = bytes.skipSpace(from: index + 1, to: end)
            guard index < end else { return place != .growing }
            let nameStart = index
            index = nameEnd(bytes, from: index, to: end, place)
            guard index > nameStart else { return false }
            index = bytes.skipSpace(from: index, to: end)
            if index < end, bytes[index] == UInt8(ascii: "=") {
                index = bytes.skipSpace(from: index + 1, to: end)
                guard let valueEnd = valueEnd(bytes, from: index, to: end, place) else { return false }
                if valueEnd == index, place == .growing { return false }
                index = bytes.skipSpace(from: valueEnd, to: end)
            }
            count += 1
        }
        return true
    }

    private static func nameEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int, _ place: ParameterPlace) -> Int {
        if place == .ofURI {
            return bytes.firstPlace(of: UInt8(ascii: ";"), or: UInt8(ascii: "="), in: start..<end)
        }
        var index = start
        while index < end, bytes[index].isToken { index += 1 }
        return index
    }

    private static func valueEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int, _ place: ParameterPlace) -> Int? {
        if place == .ofURI { return bytes.firstIndex(of: UInt8(ascii: ";"), in: start..<end) ?? end }
        if start < end, bytes[start] == UInt8(ascii: "\"") { return bytes.quoteEnd(from: start + 1, to: end) }
        return fieldValueEnd(bytes, from: start, to: end)
    }

    private static func fieldValueEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        return bytes.firstPlace(in: start..<end) { block in
            block.marks(of: ";") .| block.marks(of: ",")
                .| block.marks(of: "<") .| block.marks(of: ">")
                .| block.marks(of: "\"") .| block.marks(of: " ") .| block.marks(of: "\u{09}")
                .| block.marks(of: "\u{0d}") .| block.marks(of: "\u{0a}")
        }
    }
}
