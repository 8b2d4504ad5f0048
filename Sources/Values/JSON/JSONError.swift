/// Why a text is refused as JSON, and at which byte.
package struct JSONError: Error, Hashable, CustomStringConvertible {
    package enum Reason: Hashable, Sendable {
        case tooLong, tooDeep, tooManyValues
        /// Not valid UTF-8 (RFC 8259 section 8.1).
        case encoding
        /// The text ends before its value does.
        case incomplete
        /// A byte that is not allowed at this place, such as one after the end of the value.
        case unexpectedByte
        /// One half of a `\u` pair without the other.
        case loneSurrogate
        /// An object has two members with the same name.
        case repeatedName
    }

    package let reason: Reason
    package let offset: Int

    init(_ reason: Reason, at offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    package var description: String {
        switch reason {
        case .tooLong: "JSON text is too long"
        case .tooDeep: "JSON is nested too deeply at byte \(offset)"
        case .tooManyValues: "JSON contains too many values"
        case .encoding: "JSON text is not UTF-8"
        case .incomplete: "JSON text ends too early"
        case .unexpectedByte: "JSON is malformed at byte \(offset)"
        case .loneSurrogate: "JSON contains half a character at byte \(offset)"
        case .repeatedName: "JSON has a member twice, at byte \(offset)"
        }
    }
}
