import FoundationEssentials
import ProxyDaemon
import ProxyRuntime
import Reactor
import Settings
import Telemetry
import Timekeeping

let serveCommand = Command(
    name: "serve", summary: "Run the daemon in the foreground until SIGTERM. SIGHUP reloads the settings.",
    options: [Command.configOption, logFormatOption],
    examples: ["serve --config /etc/sippushd/sippushd.yaml --log-format json"]
) { invocation throws(Command.Failure) in
    let settings = try invocation.settings()
    var format = settings.log.format
    if let text = invocation.value("--log-format") {
        guard let wished = LogFormatChoice(rawValue: text) else {
            throw .usage("--log-format takes \(LogFormatChoice.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        format = wished
    }
    let environment = ProcessInfo.processInfo.environment
    let isJournal = JournalStream.isBehind(named: environment[JournalStream.variable])
    let log = Log(
        level: settings.log.level, format: format.format(isJournal: isJournal), sink: StandardErrorSink()
    ) { SystemClock.moment.date }
    do throws(StartError) {
        let daemon = try await Daemon(
            settings: settings, path: invocation.configPath, log: log, environment: environment)
        for problem in SetupCheck.problems(of: settings, in: invocation.configPath, on: SystemClock.moment.date) {
            log.warning("the daemon cannot use a file that the settings name", [.error: .text(problem)])
        }
        for note in SetupCheck.notes(of: settings) { log.warning("a setting may be a mistake", [.reason: .text(note)]) }
        try await daemon.run()
    } catch {
        throw .failed(text: error.description)
    }
}

private let logFormatOption = Command.Option(
    name: "--log-format", value: "FORMAT",
    help:
        "The format of log lines: 'auto', 'text', 'json' or 'journal'. This option overrides the setting 'log.format'.",
    choices: LogFormatChoice.allCases.map(\.rawValue))

let checkConfigCommand = Command(
    name: "check-config",
    summary: "Check a configuration file, or print a sample configuration or the manual of all settings.",
    options: [
        Command.configOption,
        Command.Option(
            name: "--as-service", value: nil,
            help:
                "Also check whether the service's user can use the files that the settings name. Run this command as root."
        ),
        Command.Option(
            name: "--unit", value: "FILE",
            help: "The file of the systemd unit (default: the system's sippushd.service)."),
        Command.Option(
            name: "--user", value: "USER", help: "The user of the service (default: the user in the systemd unit)."),
        Command.Option(
            name: "--print-sample", value: nil,
            help: "Print a sample configuration file with every key and its default."),
        Command.Option(name: "--print-manual", value: nil, help: "Print the manual of all settings as Markdown."),
        Command.Option(
            name: "--print-reload", value: nil,
            help: "Print, as Markdown, the list of settings whose changes take effect at SIGHUP."),
    ],
    examples: ["check-config --config sippushd.yaml", "check-config --print-sample"]
) { invocation throws(Command.Failure) in
    if invocation.has("--print-sample") {
        say(text: DaemonSettings.sample)
        return
    }
    if invocation.has("--print-manual") {
        say(
            text: DaemonSettings.manual(
                title: "Settings",
                introduction:
                    "This page describes every key of the configuration file. The daemon's program generates this page. The column *Taken at* says whether a change takes effect at SIGHUP or only at a restart. Instead of a file name, a setting can have the value `credential:NAME`, which stands for a file that systemd passes to the service (LoadCredential=)."
            ))
        return
    }
    if invocation.has("--print-reload") {
        say(text: DaemonSettings.keysTakenAtOnce + "\n")
        return
    }
    let settings = try invocation.settings()
    var problems = SetupCheck.problems(of: settings, in: invocation.configPath, on: SystemClock.moment.date)
    if invocation.has("--as-service") {
        for finding in invocation.serviceFindings(settings) {
            let words = finding.words + (finding.cure.map { " => \($0)" } ?? "")
            switch finding.level {
            case .ok: say(words)
            case .note: complain(["note: \(words)"])
            case .wrong: problems.append(words)
            }
        }
    }
    // The daemon starts without an answer of a source of users, because the source may answer later.
    for problem in SetupCheck.userProblems(of: settings) { complain(["note: \(problem)"]) }
    guard problems.isEmpty else { throw .failed(lines: ["the daemon cannot start with these settings"] + problems) }
    let isRunning = (try? UnixSocket.isListening(at: settings.control)) ?? true
    let date = SystemClock.moment.date
    let unseen = SetupCheck.unseenCredentials(of: settings, in: invocation.configPath, on: date)
    for note in SetupCheck.notes(of: settings) + unseen + (isRunning ? [] : SetupCheck.takenPorts(of: settings)) {
        complain(["note: \(note)"])
    }
    say("\(invocation.configPath) is fine")
}

extension Command.Invocation {
    var configPath: String {
        if let path = value("--config") { return path }
        let path = ProcessInfo.processInfo.environment[Command.configVariable] ?? ""
        return path.isEmpty ? Command.defaultConfig : path
    }

    func settings() throws(Command.Failure) -> DaemonSettings {
        do {
            return try DaemonSettings(contentsOf: configPath)
        } catch {
            throw .failed(text: "the configuration cannot be used\n\(error.description)")
        }
    }
}
