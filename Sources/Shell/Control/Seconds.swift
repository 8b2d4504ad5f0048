package import HTTPServices
import Timekeeping

/// A time or a duration with a precision of one millisecond, in JSON a number of seconds with decimals
/// (docs/HTTP-API.md).
package struct Seconds: Hashable, Sendable {
    package var milliseconds: Int64 = 0

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Converts a date to seconds since 1970.
    init(_ date: UnixTime) { milliseconds = date.milliseconds }
}

extension Seconds: Codable, DescribedValue {
    package static let schema: JSONSchema = .decimal.described("In seconds.")

    package init() {}

    package init(from decoder: any Decoder) throws {
        let seconds = try decoder.singleValueContainer().decode(Double.self)
        guard let exact = Int64(exactly: (seconds * 1000).rounded()) else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "too large a number"))
        }
        milliseconds = exact
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        // A Double represents the time exactly, because a time in milliseconds has fewer than 16 digits.
        try container.encode(Double(milliseconds) / 1000)
    }
}
