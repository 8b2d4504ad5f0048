package import Bytes

/// A name-addr or addr-spec with the header parameters after it (From, To, Contact, Route, Record-Route, Path): its
/// text, and the places of its parts.
package struct NameAddress: Sendable {
    package let uri: SIPURI
    /// The place of the text in the URI's storage.
    private let valueStart, valueCount: Int32
    private let displayStart, displayEnd, uriPlace, parametersPlace: UInt32
    private let tagStart, tagEnd: UInt32

    /// The text. It keeps the storage alive as the URI does, so that one reference is enough.
    private var value: ByteString {
        ByteString(storage: uri.text.storage, start: Int(valueStart), count: Int(valueCount))
    }
    /// Unchanged, including quotes; `nil` if absent.
    package var displayName: ByteString? {
        displayStart < displayEnd ? value[Int(displayStart)..<Int(displayEnd)] : nil
    }
    /// The *header* parameters: the text after `>`.
    package var parameters: Parameters {
        parametersStart < Int(valueCount) ? Parameters(value[parametersStart..<value.count]) : .none
    }
    /// The tag of a value that was read as From or To.
    package var tag: ByteString? { tagStart < tagEnd ? value[Int(tagStart)..<Int(tagEnd)] : nil }
    /// Whether it has a `tag` parameter without a value.
    package var hasEmptyTag: Bool { tagStart > tagEnd }

    /// The start of the URI in the value.
    package var uriStart: Int { Int(uriPlace) }
    package var parametersStart: Int { Int(parametersPlace) }
    /// The start of the value without the display name; 0 if it has none.
    package var namelessStart: Int { displayName == nil ? 0 : max(0, uriStart - 1) }

    /// A URI without brackets and parameters.
    package init(_ uri: SIPURI) {
        self.uri = uri
        valueStart = 0
        valueCount = 0
        displayStart = 0
        displayEnd = 0
        uriPlace = 0
        parametersPlace = 0
        tagStart = 0
        tagEnd = 0
    }

    /// Finds the parts of a whole value (RFC 3261 section 20.10); `nil` if the URI is ambiguous. The message reader
    /// checks whether URI and parameters are well-formed.
    ///
    /// - Parameters:
    ///   - value: The text.
    ///   - isTagged: Whether it is a From or To, whose tag is needed.
    package init?(_ value: ByteString, isTagged: Bool = false) {
        guard let places = value.withSpan({ Places($0) }), let uri = SIPURI(value[places.uri]) else { return nil }
        self.uri = uri
        valueStart = value.start
        valueCount = value.length
        displayStart = UInt32(places.display.lowerBound)
        displayEnd = UInt32(places.display.upperBound)
        uriPlace = UInt32(places.uri.lowerBound)
        parametersPlace = UInt32(places.parametersStart)
        var tag = 0..<0
        var hasEmptyTag = false
        if isTagged, places.parametersStart < value.count {
            value.withSpan { bytes in
                var index = places.parametersStart
                while let place = ParameterPlace(bytes, from: &index) {
                    guard bytes.equalsIgnoringCase(place.name, "tag") else { continue }
                    tag = place.value ?? tag
                    hasEmptyTag = place.value == nil
                    return
                }
            }
        }
        tagStart = hasEmptyTag ? 1 : UInt32(tag.lowerBound)
        tagEnd = UInt32(tag.upperBound)
    }

    private struct Places {
        var display = 0..<0
        var uri = 0..<0
        /// The place of the first `;` of the header parameters, or the end.
        var parametersStart = 0

        init?(_ bytes: Span<UInt8>) {
            guard let start = Self.uriStart(bytes) else { return nil }
            guard start.hasBrackets else {
                parametersStart = bytes.firstIndex(of: UInt8(ascii: ";"), in: 0..<bytes.count) ?? bytes.count
                uri = bytes.trimmed(0..<parametersStart)
                // Without brackets it is ambiguous whether these belong to the URI or to the field.
                for place in uri where bytes[place] == UInt8(ascii: "?") || bytes[place] == UInt8(ascii: ",") {
                    return nil
                }
                return
            }
            guard let end = bytes.firstIndex(of: UInt8(ascii: ">"), in: start.place..<bytes.count) else { return nil }
            if start.place > 1 { display = bytes.trimmed(0..<start.place - 1) }
            uri = start.place..<end
            parametersStart = bytes.skipSpace(from: end + 1, to: bytes.count)
        }

        /// The start of the URI: after `<`, which a display name may precede, or at the start of the value.
        private static func uriStart(_ bytes: Span<UInt8>) -> (place: Int, hasBrackets: Bool)? {
            var index = 0
            if index < bytes.count, bytes[index] == UInt8(ascii: "\"") {
                guard let quoteEnd = bytes.quoteEnd(from: 1, to: bytes.count) else { return nil }
                index = bytes.skipSpace(from: quoteEnd, to: bytes.count)
                guard index < bytes.count, bytes[index] == UInt8(ascii: "<") else { return nil }
                return (index + 1, true)
            }
            while index < bytes.count {
                switch bytes[index] {
                case UInt8(ascii: "<"): return (index + 1, true)
                case UInt8(ascii: ";"), UInt8(ascii: ":"): return (0, false)
                // Not allowed in a display name without quotes (RFC 4475 section 3.1.2.15), nor in a scheme.
                case UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: ">"), UInt8(ascii: "\\"): return nil
                default: index += 1
                }
            }
            return nil
        }
    }
}
