/// The importance of a log line, and for whom it is. docs/Logging.md explains which events have which level.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    /// The daemon cannot do its work. Somebody must act now.
    case error
    /// Something that the operator should look at soon: a provider refuses our credentials, or a limit was reached.
    case warning
    /// A rare and normal event, such as a start, a stop, new settings, or a switched provider.
    case notice
    /// A step of one call or registration.
    case info
    /// Details for developers of the program.
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

    /// The priority number of syslog and journald.
    var priority: Int { rank + 3 }

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rank < right.rank }
}

/// The format of a line.
package enum LogFormat: String, CaseIterable, Sendable {
    /// A line such as `2026-01-31T12:00:00.000Z warning push refused provider=apns`.
    case text
    /// Each line is a JSON object.
    case json
    /// A line such as `<4>push refused provider=apns`. journald reads the level from it and adds the time.
    case journal
}
