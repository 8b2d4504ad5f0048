/// Reads and writes durations in the form of settings: a number and a unit.
package enum QuantityText {
    /// Reads a duration such as `300ms`, `30`, `30s`, `5m`, `1h` or `7d`. The result is `nil` for a text in another
    /// form, and for more than a hundred years.
    package static func duration(_ text: String) -> Duration? {
        guard let (number, unit) = split(text) else { return nil }
        let milliseconds: Int64? =
            switch unit {
            case "ms": 1
            case "", "s": 1000
            case "m": 60_000
            case "h": 3_600_000
            case "d": 86_400_000
            default: nil
            }
        guard let milliseconds else { return nil }
        let (total, overflow) = number.multipliedReportingOverflow(by: milliseconds)
        return overflow || total > 36_525 * 86_400_000 ? nil : .milliseconds(total)
    }

    /// Writes a duration as a whole number of the largest possible unit, without fractions of a millisecond.
    static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        guard milliseconds == 0 else { return "\(seconds * 1000 + milliseconds)ms" }
        for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60)] as [(String, Int64)]
        where seconds != 0 && seconds % length == 0 {
            return "\(seconds / length)\(unit)"
        }
        return "\(seconds)s"
    }

    private static func split(_ text: String) -> (number: Int64, unit: Substring)? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int64(digits) else { return nil }
        return (number, text[digits.endIndex...])
    }
}
