/// Why a text is not taken as JSON, and at which byte.
package struct JSONError: Error, Hashable, CustomStringConvertible {
    package enum Reason: Hashable, Sendable {
        case tooLong, tooDeep, tooManyValues
        /// Not valid UTF-8 (RFC 8259 section 8.1).
        case encoding
        /// The text ends before its value does.
        case incomplete
        /// A byte that may not stand there, such as one after the end of the value.
        case unexpectedByte
        /// `\u` halves of a character without their partner.
        case loneSurrogate
        /// An object has two members of one name.
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
        case .tooManyValues: "JSON holds too many values"
        case .encoding: "JSON text is not UTF-8"
        case .incomplete: "JSON text ends too early"
        case .unexpectedByte: "JSON is malformed at byte \(offset)"
        case .loneSurrogate: "JSON holds half a character at byte \(offset)"
        case .repeatedName: "JSON has a member twice, at byte \(offset)"
        }
    }
}
