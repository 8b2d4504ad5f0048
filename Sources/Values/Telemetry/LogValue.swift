package import Bytes

/// One value of a log line. It is made only if the line is written.
package enum LogValue: Sendable {
    /// Text from any source. It is escaped when it is written.
    case text(String)
    /// Bytes from a peer. They are escaped when they are written.
    case bytes(ByteString)
    case integer(Int64)
    case flag(Bool)
    /// A duration: in milliseconds with three decimals, or in JSON in seconds.
    case duration(Duration)
    case redacted(Redacted)

    package static func number(_ value: some BinaryInteger) -> LogValue { .integer(Int64(clamping: value)) }

    /// Any value that has a description, such as an endpoint or a status.
    package static func described(_ value: some CustomStringConvertible) -> LogValue { .text(value.description) }

    package static func redacted(_ secret: ByteString) -> LogValue { .redacted(Redacted(secret)) }
}

extension LogValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .flag(value) }
}
