package import Bytes

/// The value of one field in a log line, computed only if the line is written.
package enum LogValue: Sendable {
    /// A text from any source, which the log escapes.
    case text(String)
    /// Bytes from a peer, which the log escapes.
    case bytes(ByteString)
    case integer(Int64)
    case flag(Bool)
    /// A duration, in milliseconds with three decimals in text lines, and in seconds in JSON.
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
