/// The importance of a log line.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    /// A failure of a part of the daemon, for which somebody must act immediately.
    case error
    /// A problem that the operator should look at soon, such as credentials that a provider refuses.
    case warning
    /// A rare but normal event, such as a start, a stop, new settings, or a switched provider.
    case notice
    /// A step of one call or registration.
    case info
    /// Details for the developers of the daemon.
    case debug

    var rank: Int {
        switch self {
        case .error: 0
        case .warning: 1
        case .notice: 2
        case .info: 3
        case .debug: 4
        }
    }

    /// The priority of the log level in syslog and journald.
    var priority: Int { rank + 3 }

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rank < right.rank }
}

/// The format of log lines.
package enum LogFormat: String, CaseIterable, Sendable {
    /// A line such as `2026-01-31T12:00:00.000Z warning push refused provider=apns`.
    case text
    /// A JSON object on each line.
    case json
    /// A line for journald, such as `<4>push refused provider=apns`. journald reads the level from the number in angle
    /// brackets, and adds the time itself.
    case journal
}
