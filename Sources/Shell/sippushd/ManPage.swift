import FoundationEssentials
import ProxyDaemon
import ProxyRuntime
import Settings

/// The manual pages, made from what `--help` and the settings say.
enum ManPage: String, CaseIterable {
    case program = "sippushd"
    case settings = "sippushd.yaml"

    /// The page in the language of man(7).
    ///
    /// - Parameter date: as `2026-11-26`.
    /// - Returns: lines.
    func text(date: String) -> String {
        let source = "sippushd \(Version.current)"
        switch self {
        case .program:
            return ManPageText.head(
                rawValue, section: 8, date: date, source: source, summary: "wakes sleeping SIP phones by push")
                + Self.synopsis + Self.commandSections + Self.rest
        case .settings:
            return ManPageText.head(
                rawValue, section: 5, date: date, source: source, summary: "settings of sippushd")
                + Self.introduction + DaemonSettings.manPageSections + Self.seeAlso("sippushd", 8)
        }
    }

    /// The day that a build calls its own (`SOURCE_DATE_EPOCH`), so that two builds of one commit are alike; else today.
    static var date: String {
        let epoch = ProcessInfo.processInfo.environment["SOURCE_DATE_EPOCH"].flatMap(Double.init)
        let date = epoch.map { Date(timeIntervalSince1970: $0) } ?? Date()
        return date.formatted(.iso8601.year().month().day())
    }

    private static let synopsis =
        ".SH SYNOPSIS\n.B sippushd\n.I COMMAND\n.RI [ arguments ]\n.RI [ options ]\n.SH DESCRIPTION\n"
        + ManPageText.paragraph(
            """
            sippushd is a SIP proxy and registrar that wakes sleeping phones by push and delivers their calls. \
            The command serve is the daemon. All other commands ask the daemon over its control socket, or work on its \
            store while it is stopped. A user without a domain is one of the first domain. \
            What a list or a log line calls a device or a call, other commands take.
            """)

    private static var commandSections: String {
        commands.reduce(into: ".SH COMMANDS\n") { text, command in
            let arguments = command.arguments.isEmpty ? "" : "\n.I \(ManPageText.escaped(command.arguments))"
            text += ".SS \(ManPageText.escaped(command.name))\n.B sippushd \(ManPageText.escaped(command.name))"
            text += "\(arguments)\n.RI [ options ]\n.PP\n" + ManPageText.paragraph(command.summary)
            for option in command.options {
                let value = option.value.map { " \\fI\(ManPageText.escaped($0))\\fR" } ?? ""
                text +=
                    ".TP\n\\fB\(ManPageText.escaped(option.name))\\fR\(value)\n" + ManPageText.paragraph(option.help)
            }
        }
    }

    private static let rest =
        ".SH OPTIONS\n"
        + entry("--help", "Say what a command does, and its options.")
        + entry("--version", "Print the version, and the commit that the program was built from.")
        + ".SH SIGNALS\n"
        + entry("SIGHUP", "The daemon reads its settings again.")
        + entry("SIGTERM", "The daemon ends, after shutdown.drain-time.")
        + ".SH EXIT STATUS\n" + entry("0", "The command did its work.")
        + entry("1", "It did not; a line on standard error says why.") + entry("64", "The command line was wrong.")
        + ".SH ENVIRONMENT\n"
        + entry(Command.configVariable, "The configuration file, where --config does not name one.")
        + ".SH FILES\n" + entry(Command.defaultConfig, "The configuration file.")
        + entry("/var/lib/sippushd/sippushd.db", "The store. It holds push tokens and hashes of passwords.")
        + entry("/run/sippushd/control.sock", "The control socket, for the daemon's own user and for root.")
        + seeAlso("sippushd.yaml", 5)

    private static let introduction =
        ".SH DESCRIPTION\n"
        + ManPageText.paragraph(
            """
            The file is YAML. Every key may be left out, but for those that are required. \
            sippushd check-config says what is wrong with a file. \
            sippushd check-config --print-sample prints a file with every key. \
            Durations are written as 300ms, 30s, 5m, 1h or 7d. \
            A running daemon reads the file again on SIGHUP.
            """)

    private static func entry(_ name: String, _ text: String) -> String {
        ".TP\n.B \(ManPageText.escaped(name))\n" + ManPageText.paragraph(text)
    }

    private static func seeAlso(_ name: String, _ section: Int) -> String {
        ".SH SEE ALSO\n.BR \(ManPageText.escaped(name)) (\(section))\n"
    }
}
