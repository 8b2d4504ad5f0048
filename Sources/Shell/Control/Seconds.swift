package import HTTPServices
import Timekeeping

/// A moment, or a span of time, that was measured to the millisecond. All JSON has times in seconds (docs/HTTP-API.md), these with
/// decimals.
package struct Seconds: Hashable, Sendable {
    package var milliseconds: Int64 = 0

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Since 1970.
    init(_ date: UnixTime) { milliseconds = date.milliseconds }
}

extension Seconds: Codable, DescribedValue {
    package static let schema: JSONSchema = .decimal.described("In seconds.")

    package init() {}

    package init(from decoder: any Decoder) throws {
        let seconds = try decoder.singleValueContainer().decode(Double.self)
        milliseconds = Int64(exactly: (seconds * 1000).rounded()) ?? 0
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        // No decimals of a moment are lost: it has fewer than sixteen digits.
        try container.encode(Double(milliseconds) / 1000)
    }
}
