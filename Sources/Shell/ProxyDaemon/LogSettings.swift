import ProxyCore
package import ProxyPolicy
package import Settings
package import Telemetry

/// The settings under `log`, for the log on standard error.
package struct LogSettings: SettingsGroup {
    package var level = LogLevel.notice
    package var format = LogFormatChoice.auto
    package var calls = CallLogging.failed

    package init() {}

    package static let schema: [Setting<LogSettings>] = [
        .choice(
            "level", \.level,
            "The least important level to log: error, warning, notice, info or debug (docs/Logging.md)."
        ).taken(.atOnce),
        .choice(
            "format", \.format,
            "The format of log lines: `text`, `json` (one object a line), `journal` (for journald: a priority, and no time), or `auto`. With `auto`, the format is `journal` if journald reads standard error, and `text` otherwise."
        ),
        .choice(
            "calls", \.calls,
            "The calls whose log line \"call ended\" has the level `notice`: `failed`, `all` or `none`. For calls that `log.calls` does not choose, the line \"call ended\" has the level `info`."
        ).taken(.atOnce),
    ]
}

/// The format of log lines that an operator chooses.
package enum LogFormatChoice: String, CaseIterable, Sendable {
    /// The format is `journal` if journald reads the lines, otherwise `text`.
    case auto
    case text
    case json
    case journal

    /// Returns the format of log lines for the operator's choice. The parameter `isJournal` says whether journald reads
    /// the lines.
    package func format(isJournal: Bool) -> LogFormat {
        switch self {
        case .auto: isJournal ? .journal : .text
        case .text: .text
        case .json: .json
        case .journal: .journal
        }
    }
}
