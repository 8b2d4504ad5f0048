import FoundationEssentials
import ProxyDaemon
import ProxyRuntime
import Settings

/// The manual pages, made from the help of the commands and from the descriptions of the settings.
enum ManPage: String, CaseIterable {
    case program = "sippushd"
    case settings = "sippushd.yaml"

    /// Returns the manual page in the language of man(7).
    ///
    /// - Parameter date: the date of the page, such as `2026-11-26`.
    /// - Returns: the lines of the manual page.
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

    /// The date of the build from `SOURCE_DATE_EPOCH`, or else today. With `SOURCE_DATE_EPOCH`, two builds of one
    /// commit create the same page.
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
            The command serve runs the daemon. All other commands ask the daemon over its control socket, or use its \
            store while it is stopped. A user without a domain belongs to the first domain. \
            Commands accept the names of devices and calls that lists and log lines show.
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
        + entry("--help", "Explain a command and its options.")
        + entry("--version", "Print the version, and the commit that the program was built from.")
        + ".SH SIGNALS\n"
        + entry("SIGHUP", "After this signal, the daemon reads its settings again.")
        + entry("SIGTERM", "The daemon stops when its calls have ended, or after the time in 'shutdown.drain-time'.")
        + ".SH EXIT STATUS\n" + entry("0", "The command succeeded.")
        + entry("1", "The command failed. Standard error has the reason.") + entry("64", "The command line was wrong.")
        + ".SH ENVIRONMENT\n"
        + entry(Command.configVariable, "The configuration file, if the option '--config' is not given.")
        + ".SH FILES\n" + entry(Command.defaultConfig, "The configuration file.")
        + entry("/var/lib/sippushd/sippushd.db", "The store, which contains push tokens and hashes of passwords.")
        + entry("/run/sippushd/control.sock", "The control socket, which only the daemon's own user and root can use.")
        + seeAlso("sippushd.yaml", 5)

    private static let introduction =
        ".SH DESCRIPTION\n"
        + ManPageText.paragraph(
            """
            The file is YAML. Every key is optional, except the keys that are marked as required. \
            sippushd check-config lists the errors in a file. \
            sippushd check-config --print-sample prints a file with every key. \
            Durations are written as 300ms, 30s, 5m, 1h or 7d. \
            Instead of a file's path, a setting can have the value credential:NAME, which stands for a file that systemd passes to the service (LoadCredential=). \
            A running daemon reads the file again on SIGHUP.
            """)

    private static func entry(_ name: String, _ text: String) -> String {
        ".TP\n.B \(ManPageText.escaped(name))\n" + ManPageText.paragraph(text)
    }

    private static func seeAlso(_ name: String, _ section: Int) -> String {
        ".SH SEE ALSO\n.BR \(ManPageText.escaped(name)) (\(section))\n"
    }
}
