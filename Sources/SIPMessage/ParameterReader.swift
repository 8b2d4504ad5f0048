import Bytes
import SIPGrammar

extension ValueReader {
    /// The rules for `;name=value` differ a little with the place.
    enum ParameterPlace {
        /// Names and values hold anything up to the next delimiter; quotes mean nothing.
        case ofURI
        /// Names are tokens, values may be quoted.
        case ofField
        /// As `ofField`, and nothing is left open at the end, because parameters of ours will follow.
        case growing
    }

    /// The parameters in `range`, which begins with `;` or is empty; `nil` when they are malformed or too many.
    ///
    /// An empty value reads as none, and a `;` at the very end is passed over.
    func parameters(_ bytes: Span<UInt8>, _ range: Range<Int>, _ place: ParameterPlace) -> [Parameter]? {
        guard !range.isEmpty else { return [] }
        let end = range.upperBound
        var found: [Parameter] = []
        found.reserveCapacity(range.count < 80 ? 3 : 8)
        var index = range.lowerBound
        while index < end {
            guard bytes[index] == UInt8(ascii: ";"), found.count < ReaderLimits.parameters else { return nil }
            index = bytes.skipSpace(from: index + 1, to: end)
            guard index < end else { return place == .growing ? nil : found }
            let nameStart = index
            index = Self.nameEnd(bytes, from: index, to: end, place)
            guard index > nameStart else { return nil }
            let name = memory.slice(nameStart..<index)
            var value: ByteString?
            index = bytes.skipSpace(from: index, to: end)
            if index < end, bytes[index] == UInt8(ascii: "=") {
                index = bytes.skipSpace(from: index + 1, to: end)
                guard let valueEnd = Self.valueEnd(bytes, from: index, to: end, place) else { return nil }
                if valueEnd > index {
                    value = memory.slice(index..<valueEnd)
                } else if place == .growing {
                    return nil
                }
                index = bytes.skipSpace(from: valueEnd, to: end)
            }
            found.append(Parameter(name: name, value: value))
        }
        return found
    }

    private static let uriNameEnds = bit(UInt8(ascii: ";")) | bit(UInt8(ascii: "="))
    private static let uriValueEnds = bit(UInt8(ascii: ";"))
    private static let fieldValueEnds =
        bit(UInt8(ascii: ";")) | bit(UInt8(ascii: ",")) | bit(UInt8(ascii: "<")) | bit(UInt8(ascii: ">"))
        | bit(UInt8(ascii: "\"")) | bit(UInt8(ascii: " ")) | bit(0x09) | bit(0x0d) | bit(0x0a)

    private static func nameEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int, _ place: ParameterPlace) -> Int {
        if place == .ofURI { return bytes.delimiter(uriNameEnds, from: start, to: end) }
        var index = start
        while index < end, bytes[index].isToken { index += 1 }
        return index
    }

    private static func valueEnd(_ bytes: Span<UInt8>, from start: Int, to end: Int, _ place: ParameterPlace) -> Int? {
        if place == .ofURI { return bytes.delimiter(uriValueEnds, from: start, to: end) }
        if start < end, bytes[start] == UInt8(ascii: "\"") { return bytes.quoteEnd(from: start + 1, to: end) }
        return bytes.delimiter(fieldValueEnds, from: start, to: end)
    }
}

extension Span<UInt8> {
    /// The first byte of the set at or after `start`, or `end`.
    fileprivate func delimiter(_ below64: UInt64, from start: Int, to end: Int) -> Int {
        var index = start
        while true {
            index = next(below64, from: index, to: end)
            guard index < end, self[index] >= 64 else { return index }
            index += 1
        }
    }
}
