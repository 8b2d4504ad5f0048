/// Why a text is not valid JSON, with the index of the first invalid byte.
package struct JSONError: Error, Hashable, CustomStringConvertible {
    package enum Reason: Hashable, Sendable {
        case tooLong, tooDeep, tooManyValues
        /// The text is not valid UTF-8 (RFC 8259 section 8.1).
        case encoding
        /// The text ends inside a value.
        case incomplete
        /// A byte is not allowed at its position, for example after the end of the value.
        case unexpectedByte
        /// One half of a surrogate pair (`\u`) lacks the other half.
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
