package import Timekeeping

/// The value of `Retry-After` (RFC 9110 section 10.2.3).
package enum RetryAfter {
    /// Nobody is waited for longer than that.
    private static let longest: Int64 = 3600

    /// Seconds, or the time until a date such as `Sun, 06 Nov 1994 08:49:37 GMT`; `nil` for anything else.
    package static func duration(_ text: String, now: UnixTime) -> Duration? {
        if let seconds = Int64(text) { return seconds < 0 ? nil : .seconds(min(seconds, longest)) }
        guard let date = date(text) else { return nil }
        return .seconds(min(max(date - now.seconds, 0), longest))
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Seconds since 1970 of an IMF-fixdate; its day name is not looked at.
    private static func date(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let day = Int64(words[1]), (1...31).contains(day),
            let month = months.firstIndex(where: { $0 == words[2] }), let year = Int64(words[3]),
            (1970...9999).contains(year)
        else { return nil }
        let clock = words[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        return days(year, Int64(month) + 1, day) * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }

    /// Days from 1970-01-01 by the Gregorian calendar (Hinnant's `days_from_civil`), for years after it.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // The year begins in March, so that the leap day is its last.
        let year = month <= 2 ? year - 1 : year
        let era = year / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}
