/// The importance of a line, and its audience. docs/Logging.md has the policy.
package enum LogLevel: String, CaseIterable, Comparable, Sendable {
    /// The daemon cannot do its work: somebody must act now.
    case error
    /// The operator should look at it at the next opportunity: a provider refuses us, a limit was reached.
    case warning
    /// Rare and normal: started, stopped, settings read, a provider switched.
    case notice
    /// The steps of one call or registration.
    case info
    /// For developers of the program.
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

    /// The priority of syslog and journald.
    var priority: Int { rank + 3 }

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rank < right.rank }
}

/// The format of a line.
package enum LogFormat: String, CaseIterable, Sendable {
    /// `2026-01-31T12:00:00.000Z warning push refused provider=apns`
    case text
    /// One JSON object a line.
    case json
    /// `<4>push refused provider=apns`: journald reads the level and adds the time.
    case journal
}
