package import HTTPServices
import Timekeeping

/// A time or a duration, measured to the millisecond. All JSON has times in seconds (docs/HTTP-API.md); these have
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
        // A time keeps all decimals: it has fewer than sixteen digits.
        try container.encode(Double(milliseconds) / 1000)
    }
}
