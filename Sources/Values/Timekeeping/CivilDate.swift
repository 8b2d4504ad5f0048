/// A date of the proleptic Gregorian calendar with a time of day, both in UTC.
package struct CivilDate: Hashable, Sendable {
    package let year: Int64
    /// The month of the date, from 1 to 12.
    package let month: Int64
    /// The day of the month, from 1 to 31.
    package let day: Int64
    /// The day of the week; 0 is Sunday.
    package let weekday: Int64
    package let secondOfDay: Int64

    /// The names of the months in the dates of SIP, HTTP and mail.
    package static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]

    /// The number of days from 1970-01-01 to the given date (Hinnant's `days_from_civil`). A `day` beyond the month's
    /// end gives a date in a later month.
    package static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        // Years are counted from March, so that the leap day is the last day.
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    /// The date as text, such as `2026-01-31`.
    package var dayText: String { "\(Self.padded(year, 4))-\(Self.padded(month, 2))-\(Self.padded(day, 2))" }

    /// The time of day as text, such as `23:29:00`.
    package var timeText: String {
        [secondOfDay / 3600, secondOfDay / 60 % 60, secondOfDay % 60].map { Self.padded($0, 2) }.joined(separator: ":")
    }

    /// The date and time in the format of SIP and HTTP: `Sat, 13 Nov 2010 23:29:00 GMT` (RFC 3261 section 20.17, RFC
    /// 9110 section 5.6.7).
    package var headerText: String {
        let (weekday, month) = (Self.weekdays[Int(weekday)], Self.months[Int(month - 1)])
        return "\(weekday), \(Self.padded(day, 2)) \(month) \(Self.padded(year, 4)) \(timeText) GMT"
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}

extension UnixTime {
    /// The calendar date of a time (Hinnant's `civil_from_days`).
    package var civil: CivilDate {
        let seconds = seconds
        let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return CivilDate(
            year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month: month,
            day: dayOfYear - (153 * monthFromMarch + 2) / 5 + 1,
            // Day 0, 1970-01-01, was a Thursday (4).
            weekday: ((days + 4) % 7 + 7) % 7, secondOfDay: seconds - days * 86_400)
    }
}
