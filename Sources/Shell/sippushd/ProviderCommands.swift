import Control
import PushSending

let providerListCommand = Command(
    name: "provider list", summary: "Show the push providers, and each app's counts of accepted and failed pushes.",
    options: Command.listOptions,
    examples: ["provider list"]
) { invocation throws(Command.Failure) in
    let providers: [ProviderReport] = try await ControlConnection(invocation).get("/v1/providers")
    if try invocation.printJSON(providers) { return }
    let table = Table(
        ("APP", 24), ("STATE", 14), ("ACCEPTED", 13), ("FAILED", 13), ("DEAD TOKENS", 13), ("REFUSED", 13),
        ("WAITING", 13), ("UNDER WAY", 0))
    for provider in providers {
        if provider.apps.isEmpty { table.row(provider.name, provider.state ?? "on") }
        for app in provider.apps {
            let state = provider.state ?? (app.isReachable ? "on" : "not reached")
            let figures = [
                app.accepted, app.failed, app.deadTokens, app.credentialsRefused, app.queued, app.inFlight,
            ]
            table.row([app.name, state] + figures.map { "\($0)" })
            if let words = app.credentials.words { say("    \(words)") }
            if let problem = app.problem { say("    last error: \(problem)") }
            if let refusal = app.refusal { say("    the provider refuses our credentials: \(refusal)") }
            if let words = app.refreshes?.words { say("    \(words)") }
            printHosts(of: app)
            if app.foreignTokens > 0 {
                say(
                    "    \(app.foreignTokens) pushes had tokens of another app: compare the phones' pn-param with the settings"
                )
            }
        }
    }
}

extension RefreshReport {
    /// The figures in words: how many refresh pushes were sent, and how many phones registered after them.
    fileprivate var words: String {
        let names = ["first", "second", "third"]
        let pushes = zip(names, zip(sent, came)).filter { $0.1.0 > 0 }.map { name, counts in
            "\(counts.0) \(name), after which \(counts.1) registered"
        }
        let held = heldBack > 0 ? "; \(heldBack) held back" : ""
        return
            "refresh pushes: \(pushes.joined(separator: "; ")); \(Words.count(never, "phone")) did not register\(held)"
    }
}

/// Prints the busiest push servers that phones chose, each with its own state.
private func printHosts(of app: PushAppFigures) {
    guard let hosts = app.hosts, let count = app.hostCount else { return }
    say("    \(count) push \(count == 1 ? "server" : "servers") chosen by phones, the busiest first:")
    for host in hosts {
        let limited = host.limited > 0 ? ", \(host.limited) times 429" : ""
        let state = host.refusal ?? (host.isReachable ? host.problem : host.problem ?? "it does not answer")
        say(
            "      \(host.host): \(host.accepted) accepted, \(host.failed) failed, \(host.queued) waiting\(limited)\(state.map { "; last error: \($0)" } ?? "")"
        )
    }
}
extension CredentialReport {
    /// The state of an app's credentials in words; `nil` before the first trial.
    fileprivate var words: String? {
        let time = since.map { " since \(timeText($0))" } ?? ""
        let because = reason.map { ": \($0)" } ?? ""
        let advice = cure.map { " => \($0)" } ?? ""
        return switch State(rawValue: state) {
        case .works: "the credentials work\(time)"
        case .reached: "server answers\(time)\(because)"
        case .refused: "credentials refused\(time)\(because)\(advice)"
        case .failed: "credentials not tried, because the provider fails\(time)\(because)\(advice)"
        case .untried, nil: nil
        }
    }
}

extension ProviderReport {
    /// The state of a provider that an operator has set; `nil` while the provider is enabled.
    fileprivate var state: String? { !isEnabled ? "off" : isPaused ? "paused" : nil }
}

let providerDisableCommand = Command(
    name: "provider disable",
    summary:
        "Switch a push provider off until it is enabled again, even over restarts of the daemon. The daemon removes expired contacts of the provider's devices. Devices of the provider that are still registered get calls without a push.",
    arguments: "PROVIDER",
    options: [
        Command.configOption,
        Command.Option(
            name: "--yes", value: nil,
            help:
                "Disable the provider. Without this option, the command only prints how many contacts would end, and exits with status 1."
        ),
    ],
    examples: ["provider disable fcm", "provider disable fcm --yes"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("PROVIDER")
    let control = try ControlConnection(invocation)
    let resource = "/v1/providers/\(pathSegment(name))/disable"
    guard invocation.has("--yes") else {
        let report: ProviderDisableReport = try await control.get(resource)
        throw .failed(lines: [
            "nothing was changed; with --yes, this command would end \(report.words)",
            "To keep the contacts and send no pushes: sippushd provider pause \(name)",
            "To switch the provider off: sippushd provider disable \(name) --yes",
        ])
    }
    let report: ProviderDisableReport = try await control.post(resource, timeout: .seconds(60))
    say("the provider \(name) is off, which ended \(report.words)")
}

extension ProviderDisableReport {
    fileprivate var words: String {
        "\(Words.count(contactsEnded, "expired contact")); phones of \(Words.count(contactsOrdinary, "contact")) are called "
            + "without a push until they expire"
    }
}

let providerEnableCommand = Command(
    name: "provider enable", summary: "Switch on a push provider that was disabled.", arguments: "PROVIDER",
    options: [Command.configOption],
    examples: ["provider enable fcm"]
) { invocation throws(Command.Failure) in
    try await switchProvider(invocation, "enable", "is on")
}

let providerPauseCommand = Command(
    name: "provider pause",
    summary:
        "Pause a push provider: send it no pushes until it is resumed, even over restarts of the daemon. Contacts of the provider's devices stay registered, and calls wait for their phones.",
    arguments: "PROVIDER", options: [Command.configOption],
    examples: ["provider pause fcm"]
) { invocation throws(Command.Failure) in
    try await switchProvider(invocation, "pause", "is paused")
}

let providerResumeCommand = Command(
    name: "provider resume", summary: "Send pushes to a paused push provider again.", arguments: "PROVIDER",
    options: [Command.configOption],
    examples: ["provider resume fcm"]
) { invocation throws(Command.Failure) in
    try await switchProvider(invocation, "resume", "is on")
}

private func switchProvider(
    _ invocation: Command.Invocation, _ word: String, _ result: String
) async throws(Command.Failure) {
    let name = try invocation.onlyArgument("PROVIDER")
    try await ControlConnection(invocation).post("/v1/providers/\(pathSegment(name))/\(word)")
    say("\(name) \(result)")
}

let feedbackPullCommand = Command(
    name: "feedback pull",
    summary: "Ask Apple's feedback service immediately for dead push tokens, and remove the contacts of these tokens.",
    options: Command.listOptions,
    examples: ["feedback pull"]
) { invocation throws(Command.Failure) in
    let report: FeedbackReport = try await ControlConnection(invocation).post(
        "/v1/feedback/pull", timeout: .seconds(600))
    if try !invocation.printJSON(report) {
        say("records".padded(to: 20) + "\(report.records)")
        say("devices dropped".padded(to: 20) + "\(report.contactsDropped)")
        say("registered later".padded(to: 20) + "\(report.ignoredAsOlder)")
        say("unknown".padded(to: 20) + "\(report.unknown)")
    }
    guard report.failures.isEmpty else { throw .failed(lines: report.failures) }
}
