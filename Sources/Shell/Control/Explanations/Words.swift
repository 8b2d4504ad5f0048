import FoundationEssentials
import Timekeeping

/// Writes times, durations and counts for people.
package enum Words {
    /// Writes a time, such as `2026-11-21 10:12:03.120 UTC`.
    package static func date(_ milliseconds: Int64) -> String {
        let style = Date.ISO8601FormatStyle(dateTimeSeparator: .space)
        // `Date` formats only whole seconds, so the milliseconds are appended. Milliseconds are not converted to a
        // `Double`, which could be wrong by a millisecond.
        let time = UnixTime(milliseconds: milliseconds)
        let text = Date(timeIntervalSince1970: Double(time.seconds)).formatted(style)
        let fraction = "\(1000 + (milliseconds - time.seconds * 1000))".dropFirst()
        return "\(text.hasSuffix("Z") ? String(text.dropLast()) : text).\(fraction) UTC"
    }

    package static func count(_ count: Int, _ noun: String) -> String { count == 1 ? "1 \(noun)" : "\(count) \(noun)s" }

    /// Writes a duration in the largest unit that fits, such as `5 min`.
    package static func time(_ milliseconds: Int64) -> String {
        let seconds = max(0, milliseconds) / 1000
        return switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3600) h"
        default: "\(seconds / 86_400) days"
        }
    }

    /// Writes a time to the second, such as `2026-11-21T10:12:03Z`.
    package static func second(_ seconds: Int64) -> String {
        Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(Date.ISO8601FormatStyle())
    }
}

extension String {
    /// The text, filled with blanks up to the width; at least one blank follows.
    package func padded(to width: Int) -> String {
        count < width ? self + String(repeating: " ", count: width - count) : self + " "
    }
}
