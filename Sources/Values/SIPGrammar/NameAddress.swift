package import Bytes

/// A name-addr or addr-spec with its header parameters, as in From, To, Contact, Route, Record-Route and Path.
package struct NameAddress: Sendable {
    package let uri: SIPURI
    /// The range of the value in the URI's storage.
    private let valueStart, valueCount: Int32
    private let displayStart, displayEnd, uriPlace, parametersPlace: UInt32
    private let tagStart, tagEnd: UInt32

    /// The complete text of the value, made from the storage of the URI.
    private var value: ByteString {
        ByteString(storage: uri.text.storage, start: Int(valueStart), count: Int(valueCount))
    }
    /// The display name as received, with its quotes; `nil` if the value has none.
    package var displayName: ByteString? {
        displayStart < displayEnd ? value[Int(displayStart)..<Int(displayEnd)] : nil
    }
    /// The *header* parameters, which follow the `>` and do not belong to the URI.
    package var parameters: Parameters {
        parametersStart < Int(valueCount) ? Parameters(value[parametersStart..<value.count]) : .none
    }
    /// The `tag` parameter; `nil` if the value has none, or was not read as From or To.
    package var tag: ByteString? { tagStart < tagEnd ? value[Int(tagStart)..<Int(tagEnd)] : nil }
    /// Whether the From or To value has a `tag` parameter without a value.
    package var hasEmptyTag: Bool { tagStart > tagEnd }

    /// The index of the URI in the value.
    package var uriStart: Int { Int(uriPlace) }
    package var parametersStart: Int { Int(parametersPlace) }
    /// The index of the value without its display name; 0 if the value has no display name.
    package var namelessStart: Int { displayName == nil ? 0 : max(0, uriStart - 1) }

    /// Makes a value of only the URI, without brackets and header parameters.
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

    /// Finds the parts of a From, To, Contact or similar value (RFC 3261 section 20.10). The result is `nil` if the end
    /// of the URI is ambiguous. The message reader, not the initialiser, checks whether the URI and the parameters are
    /// well-formed.
    ///
    /// - Parameters:
    ///   - value: the text of the header field value.
    ///   - isTagged: whether the value is a From or To, whose tag is read.
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
        /// The index of the first `;` of the header parameters, or the end of the value.
        var parametersStart = 0

        init?(_ bytes: Span<UInt8>) {
            guard let start = Self.uriStart(bytes) else { return nil }
            guard start.hasBrackets else {
                parametersStart = bytes.firstIndex(of: UInt8(ascii: ";"), in: 0..<bytes.count) ?? bytes.count
                uri = bytes.trimmed(0..<parametersStart)
                // In a value without brackets, it is unclear whether a `?` or `,` belongs to the URI or to the field.
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

        /// The index of the URI in a value: after the `<`, or 0 without brackets.
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
                // Neither an unquoted display name (RFC 4475 section 3.1.2.15) nor a scheme can contain `,`, `"`, `>`
                // or a backslash.
                case UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: ">"), UInt8(ascii: "\\"): return nil
                default: index += 1
                }
            }
            return nil
        }
    }
}
