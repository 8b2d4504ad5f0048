package import Timekeeping

/// A user's rule by which no device rings, either always or at certain times of the week (windows).
package struct DoNotDisturb: Hashable, Sendable, Codable {
    /// A span of time that begins on the given days of the week.
    package struct Window: Hashable, Sendable, Codable {
        /// The days on which the window begins; 0 is Monday.
        package var days: [Int64]
        /// The minute of the day at which the window begins.
        package var from: Int64
        /// The minute of the day at which the window ends. If `to` is not after `from`, the window ends on the next
        /// day.
        package var to: Int64

        package init(days: [Int64], from: Int64, to: Int64) {
            self.days = days
            self.from = from
            self.to = to
        }

        /// Whether the window contains a minute of a day of the week.
        func contains(day: Int64, minute: Int64) -> Bool {
            if from < to { return days.contains(day) && minute >= from && minute < to }
            return days.contains(day) && minute >= from || days.contains((day + 6) % 7) && minute < to
        }
    }

    /// The end of the time in which no device rings.
    package enum End: Hashable, Sendable {
        /// The time has no end until an operator changes the rule.
        case never
        /// The minute of the day at which the window ends.
        case at(minute: Int64)
    }

    package var isAlways = false
    package var windows: [Window] = []
    /// The name of the time zone of the windows, such as `Europe/Berlin`.
    package var timeZone = "UTC"
    /// The final response to the caller.
    package var status: UInt16 = 480
    /// Callers for whom the devices ring in spite of the rule: user names, or `user@domain`.
    package var exceptions: [String] = []

    package init() {}

    package static let mostWindows = 32
    package static let mostExceptions = 32
    package static let statuses: [UInt16] = [480, 486, 600, 603]

    /// When the rule ends, if it is in force at the given time; `nil` if the rule is not in force.
    package func end(at date: UnixTime, in zone: ZoneOffsets) -> End? {
        if isAlways { return .never }
        guard !windows.isEmpty else { return nil }
        let local = UnixTime(seconds: date.seconds + zone.offset(at: date)).civil
        let (day, minute) = ((local.weekday + 6) % 7, local.secondOfDay / 60)
        return windows.first { $0.contains(day: day, minute: minute) }.map { .at(minute: $0.to) }
    }

    /// Whether the rule does not apply to a caller. `user` and `domain` are the parts of the caller's URI.
    package func excepts(user: String, domain: String) -> Bool {
        exceptions.contains { entry in
            guard let at = entry.lastIndex(of: "@") else { return entry == user }
            return entry[..<at] == user && entry[entry.index(after: at)...].lowercased() == domain.lowercased()
        }
    }
}

extension DoNotDisturb.End: CustomStringConvertible {
    package var description: String {
        switch self {
        case .never: "always"
        case .at(let minute): "until \(Self.clock(minute))"
        }
    }

    /// A minute of the day as text, such as `07:00`.
    package static func clock(_ minute: Int64) -> String {
        func padded(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(padded(minute / 60)):\(padded(minute % 60))"
    }
}
