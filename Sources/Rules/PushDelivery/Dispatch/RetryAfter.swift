package import Timekeeping

/// Parses the header field `Retry-After` (RFC 9110 section 10.2.3).
package enum RetryAfter {
    /// The maximum waiting time in seconds; a longer Retry-After is treated as the maximum.
    private static let longest: Int64 = 3600

    /// Parses the value of `Retry-After`: a number of seconds, or a date such as `Sun, 06 Nov 1994 08:49:37 GMT`. Text
    /// that is neither a number nor a date gives `nil`.
    package static func duration(_ text: String, now: UnixTime) -> Duration? {
        if let seconds = Int64(text) { return seconds < 0 ? nil : .seconds(min(seconds, longest)) }
        guard let date = date(text) else { return nil }
        return .seconds(min(max(date - now.seconds, 0), longest))
    }

    /// Parses an HTTP date (IMF-fixdate), and returns the Unix time in seconds. The weekday in an HTTP date is ignored.
    static func date(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let day = Int64(words[1]), (1...31).contains(day),
            let month = CivilDate.months.firstIndex(where: { $0 == words[2] }), let year = Int64(words[3]),
            (1970...9999).contains(year)
        else { return nil }
        let clock = words[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        return CivilDate.days(year, Int64(month) + 1, day) * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }
}
