package import ProxyCore
package import Settings
package import Telemetry

/// The settings under `log`: the log on standard error.
package struct LogSettings: SettingsGroup {
    package var level = LogLevel.notice
    package var format = LogFormat.text
    package var calls = CallLogging.failed

    package init() {}

    package static let schema: [Setting<LogSettings>] = [
        .choice(
            "level", \.level,
            "The least important level to log: error, warning, notice, info or debug (docs/Logging.md)."
        ).taken(.atOnce),
        .choice("format", \.format, "The format of lines: text, json (one object a line) or journal (for journald)."),
        .choice(
            "calls", \.calls,
            "The calls whose line at their end has the level notice: failed, all or none. The lines of other calls have the level info."
        ).taken(.atOnce),
    ]
}
