/// A rule for the offset of a time zone in each year, in the form of POSIX: `CET-1CEST,M3.5.0,M10.5.0/3`.
struct YearlyZoneRule: Hashable, Sendable {
    /// A day of the year.
    private enum Day: Hashable, Sendable {
        /// The given weekday (0 is Sunday) in the given week of a month; week 5 is the last one.
        case weekday(month: Int64, week: Int64, day: Int64)
        /// The day of the year from 1 to 365; 29 February is not counted.
        case julian(Int64)
        /// The day of the year from 0.
        case ordinal(Int64)
    }

    private struct Change: Hashable, Sendable {
        let day: Day
        /// The local time of the change, in seconds after midnight.
        let time: Int64
    }

    private struct Summer: Hashable, Sendable {
        let offset: Int64
        let start, end: Change
    }

    private let standard: Int64
    private let summer: Summer?

    /// Reads a rule; `nil` if the text is malformed.
    init?(_ text: String) {
        var rest = Array(text.utf8)[...]
        guard Self.takeName(&rest), let west = Self.takeTime(&rest) else { return nil }
        standard = -west
        guard !rest.isEmpty else {
            summer = nil
            return
        }
        guard Self.takeName(&rest) else { return nil }
        var offset = -west + 3600
        if let first = rest.first, first != UInt8(ascii: ",") {
            guard let own = Self.takeTime(&rest) else { return nil }
            offset = -own
        }
        guard let start = Self.takeDay(&rest), let end = Self.takeDay(&rest), rest.isEmpty else { return nil }
        summer = Summer(offset: offset, start: start, end: end)
    }

    /// The offset at the given time, in seconds east of UTC.
    func offset(at seconds: Int64) -> Int64 {
        guard let summer else { return standard }
        let year = UnixTime(seconds: seconds + standard).civil.year
        let start = Self.seconds(summer.start, in: year) - standard
        let end = Self.seconds(summer.end, in: year) - summer.offset
        // South of the equator, summer begins late in one year and ends early in the next year.
        let isSummer = start < end ? seconds >= start && seconds < end : seconds >= start || seconds < end
        return isSummer ? summer.offset : standard
    }

    private static func seconds(_ change: Change, in year: Int64) -> Int64 {
        let day: Int64
        switch change.day {
        case .weekday(let month, let week, let weekday):
            let first = CivilDate.days(year, month, 1)
            // Day 0 is 1970-01-01, which was a Thursday (weekday 4).
            let shift = (weekday - (first + 4) % 7 + 14) % 7
            let next = month == 12 ? CivilDate.days(year + 1, 1, 1) : CivilDate.days(year, month + 1, 1)
            let found = first + shift + (week - 1) * 7
            day = found < next ? found : found - 7
        case .julian(let number):
            let isAfterLeapDay = CivilDate.days(year, 3, 1) - CivilDate.days(year, 2, 1) == 29 && number >= 60
            day = CivilDate.days(year, 1, 1) + number - 1 + (isAfterLeapDay ? 1 : 0)
        case .ordinal(let number): day = CivilDate.days(year, 1, 1) + number
        }
        return day * 86_400 + change.time
    }

    // MARK: Reading

    private static func takeName(_ rest: inout ArraySlice<UInt8>) -> Bool {
        if rest.first == UInt8(ascii: "<") {
            guard let end = rest.firstIndex(of: UInt8(ascii: ">")) else { return false }
            rest = rest[(end + 1)...]
            return true
        }
        let name = rest.prefix { ($0 | 0x20) >= UInt8(ascii: "a") && ($0 | 0x20) <= UInt8(ascii: "z") }
        rest = rest.dropFirst(name.count)
        return !name.isEmpty
    }

    /// Reads a time such as `-1`, `5:30` or `+02:00:00`, in seconds.
    private static func takeTime(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
        guard let hours = takeNumber(&rest, upTo: 167) else { return nil }
        var seconds = hours * 3600
        for unit in [60, 1] as [Int64] where rest.first == UInt8(ascii: ":") {
            rest = rest.dropFirst()
            guard let part = takeNumber(&rest, upTo: 59) else { return nil }
            seconds += part * unit
        }
        return isNegative ? -seconds : seconds
    }

    private static func takeNumber(_ rest: inout ArraySlice<UInt8>, upTo most: Int64) -> Int64? {
        let digits = rest.prefix(4).prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        rest = rest.dropFirst(digits.count)
        guard let number = Int64(String(decoding: digits, as: UTF8.self)), number <= most else { return nil }
        return number
    }

    private static func takeDay(_ rest: inout ArraySlice<UInt8>) -> Change? {
        guard rest.popFirst() == UInt8(ascii: ","), let day = takeDate(&rest) else { return nil }
        guard rest.first == UInt8(ascii: "/") else { return Change(day: day, time: 7200) }
        rest = rest.dropFirst()
        return takeTime(&rest).map { Change(day: day, time: $0) }
    }

    private static func takeDate(_ rest: inout ArraySlice<UInt8>) -> Day? {
        if rest.first == UInt8(ascii: "J") {
            rest = rest.dropFirst()
            return takeNumber(&rest, upTo: 365).map { .julian($0) }
        }
        guard rest.first == UInt8(ascii: "M") else { return takeNumber(&rest, upTo: 365).map { .ordinal($0) } }
        rest = rest.dropFirst()
        guard let month = takeNumber(&rest, upTo: 12), month > 0, rest.popFirst() == UInt8(ascii: "."),
            let week = takeNumber(&rest, upTo: 5), week > 0, rest.popFirst() == UInt8(ascii: "."),
            let day = takeNumber(&rest, upTo: 6)
        else { return nil }
        return .weekday(month: month, week: week, day: day)
    }
}
