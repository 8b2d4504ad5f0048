package import Bytes

/// The value of one field in a log line. The value of a field is computed only if its line is written.
package enum LogValue: Sendable {
    /// The value of a log field is a text from any source, for example from a peer. When the log writes the line, it
    /// escapes the text.
    case text(String)
    /// Bytes from a peer, as the value of a field. The log escapes the bytes of the value when it writes the line.
    case bytes(ByteString)
    case integer(Int64)
    case flag(Bool)
    /// A duration, which the text format shows in milliseconds with three decimals, and JSON in seconds.
    case duration(Duration)
    case redacted(Redacted)

    package static func number(_ value: some BinaryInteger) -> LogValue { .integer(Int64(clamping: value)) }

    /// The description of any value, such as an endpoint or a status.
    package static func described(_ value: some CustomStringConvertible) -> LogValue { .text(value.description) }

    package static func redacted(_ secret: ByteString) -> LogValue { .redacted(Redacted(secret)) }
}

extension LogValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .flag(value) }
}
