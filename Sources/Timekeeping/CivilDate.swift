/// A date as people write it, in UTC by the proleptic Gregorian calendar.
package struct CivilDate: Hashable, Sendable {
    package let year: Int64
    /// 1 to 12.
    package let month: Int64
    /// 1 to 31.
    package let day: Int64
    /// 0 is Sunday.
    package let weekday: Int64
    package let secondOfDay: Int64
}

extension UnixTime {
    /// By Hinnant's `civil_from_days`.
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
            // The first of January 1970 was a Thursday.
            weekday: ((days + 4) % 7 + 7) % 7, secondOfDay: seconds - days * 86_400)
    }
}
