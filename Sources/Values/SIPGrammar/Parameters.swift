package import Bytes

/// One parameter `name[=value]` of a URI or header field, with the value's escapes and quotes. A parameter with an
/// empty value is treated as a parameter without a value.
package struct Parameter: Hashable, Sendable {
    package let name: ByteString
    package let value: ByteString?
}

extension [UInt8] {
    /// Appends a semicolon and the parameter as it was received.
    package mutating func append(_ parameter: Parameter) {
        append(";")
        append(parameter.name)
        guard let value = parameter.value else { return }
        append("=")
        append(value)
    }

    /// Appends a semicolon and one of the parameters, unchanged.
    package mutating func append(_ place: ParameterPlace, of parameters: Parameters) {
        append(";")
        append(parameters.text, place.name)
        guard let value = place.value else { return }
        append("=")
        append(parameters.text, value)
    }
}

extension ByteSink {
    /// Appends a semicolon and one of the parameters, unchanged.
    package mutating func append(_ place: ParameterPlace, of parameters: Parameters) {
        append(";")
        append(parameters.text, place.name)
        guard let value = place.value else { return }
        append("=")
        append(parameters.text, value)
    }
}

/// The parameters of a URI or of a header field value. The property `text` extends from the first `;` to the end of the
/// parameters.
///
/// The text of parameters is split only on demand. The message reader, not ``Parameters``, checks whether the text is
/// well-formed. The parameters of a malformed text are meaningless, but can be read safely.
package struct Parameters: Sequence, Sendable {
    package let text: ByteString

    package init(_ text: ByteString) { self.text = text }

    package static let none = Parameters(.empty)

    /// The first parameter with the given name, in upper or lower case; `name` must be in lower case.
    package func first(named name: StaticString) -> Parameter? {
        guard let place = place(of: name) else { return nil }
        return Parameter(name: text[place.name], value: place.value.map { text[$0] })
    }

    /// The value of the first parameter with the given name; `nil` if the parameter or its value is missing.
    package func value(of name: StaticString) -> ByteString? { place(of: name)?.value.map { text[$0] } }

    package func contains(_ name: StaticString) -> Bool { place(of: name) != nil }

    private func place(of name: StaticString) -> ParameterPlace? {
        guard !text.isEmpty else { return nil }
        return text.withSpan { bytes in
            var index = 0
            while let place = ParameterPlace(bytes, from: &index) {
                if bytes.equalsIgnoringCase(place.name, name) { return place }
            }
            return nil
        }
    }

    /// Calls `body` with the position of each parameter, for code that examines many parameters and keeps few.
    @inlinable
    package func forEachPlace(_ body: (Span<UInt8>, ParameterPlace) -> Void) {
        guard !text.isEmpty else { return }
        text.withSpan { bytes in
            var index = 0
            while let place = ParameterPlace(bytes, from: &index) { body(bytes, place) }
        }
    }

    package func makeIterator() -> Iterator { Iterator(text: text) }

    package struct Iterator: IteratorProtocol {
        fileprivate let text: ByteString
        private var index = 0

        fileprivate init(text: ByteString) { self.text = text }

        package mutating func next() -> Parameter? {
            guard let place = text.withSpan({ ParameterPlace($0, from: &index) }) else { return nil }
            return Parameter(name: text[place.name], value: place.value.map { text[$0] })
        }
    }
}

/// The position of one parameter in the text of its ``Parameters``.
@usableFromInline
package struct ParameterPlace {
    package let name: Range<Int>
    /// The range of the value; `nil` for no value or an empty value.
    package let value: Range<Int>?

    /// Finds the next parameter with a name from `index` on, and moves `index` behind it. A semicolon in a quoted value
    /// does not separate parameters.
    @usableFromInline
    package init?(_ bytes: Span<UInt8>, from index: inout Int) {
        while index < bytes.count {
            let start = index
            let (equals, end) = Self.end(bytes, from: start)
            index = end + 1
            let name = bytes.trimmed(start..<(equals ?? end))
            guard !name.isEmpty else { continue }
            self.name = name
            let value = equals.map { bytes.trimmed($0 + 1..<end) }
            self.value = value.flatMap { $0.isEmpty ? nil : $0 }
            return
        }
        return nil
    }

    /// The index after the parameter at `start`, and the index of its `=`; `nil` if no `=` comes before a quote.
    private static func end(_ bytes: Span<UInt8>, from start: Int) -> (equals: Int?, end: Int) {
        var equals: Int?
        var index = bytes.firstPlace(
            of: UInt8(ascii: ";"), UInt8(ascii: "="), or: UInt8(ascii: "\""), in: start..<bytes.count)
        if index < bytes.count, bytes[index] == UInt8(ascii: "=") {
            equals = index
            index = bytes.firstPlace(of: UInt8(ascii: ";"), or: UInt8(ascii: "\""), in: index..<bytes.count)
        }
        while index < bytes.count, bytes[index] != UInt8(ascii: ";") {
            index = bytes.quoteEnd(from: index + 1, to: bytes.count) ?? bytes.count
            index = bytes.firstPlace(of: UInt8(ascii: ";"), or: UInt8(ascii: "\""), in: index..<bytes.count)
        }
        return (equals, index)
    }
}
