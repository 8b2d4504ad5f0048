import Control
import PushSending

let providerListCommand = Command(
    name: "provider list", summary: "Show the push providers, and each app's counts of accepted and failed pushes.",
    arguments: "",
    options: Command.listOptions,
    examples: ["provider list"]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    let providers: [ProviderReport] = try await ControlConnection(invocation).get("/v1/providers")
    if try invocation.printJSON(providers) { return }
    let table = Table(
        ("APP", 24), ("STATE", 14), ("ACCEPTED", 13), ("FAILED", 13), ("DEAD TOKENS", 13), ("REFUSED", 13),
        ("WAITING", 13), ("UNDER WAY", 0))
    for provider in providers {
        if provider.apps.isEmpty { table.row(provider.name, provider.isEnabled ? "on" : "off") }
        for app in provider.apps {
            let state = !provider.isEnabled ? "off" : app.isReachable ? "on" : "not reached"
            let figures = [
                app.accepted, app.failed, app.deadTokens, app.credentialsRefused, app.queued, app.inFlight,
            ]
            table.row([app.name, state] + figures.map { "\($0)" })
            if let words = app.credentials.words { say("    \(words)") }
            if let problem = app.problem { say("    last error: \(problem)") }
            if let refusal = app.refusal { say("    refuses our credentials: \(refusal)") }
            if app.foreignTokens > 0 {
                say(
                    "    \(app.foreignTokens) pushes were for tokens of another app: compare pn-param with the settings"
                )
            }
        }
    }
}

extension CredentialReport {
    /// The state of the credentials in words; `nil` before the first trial.
    fileprivate var words: String? {
        let time = since.map { " since \(timeText($0))" } ?? ""
        let because = reason.map { ": \($0)" } ?? ""
        let advice = cure.map { " => \($0)" } ?? ""
        return switch State(rawValue: state) {
        case .works: "credentials known to work\(time)"
        case .reached: "server answers\(time)\(because)"
        case .refused: "credentials refused\(time)\(because)\(advice)"
        case .failed: "credentials not tried, the provider fails\(time)\(because)\(advice)"
        case .untried, nil: nil
        }
    }
}

let providerDisableCommand = Command(
    name: "provider disable",
    summary:
        "Switch a push provider off, also after restarts. Its devices are no longer woken; expired ones are removed.",
    arguments: "PROVIDER", options: [Command.configOption],
    examples: ["provider disable fcm"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("PROVIDER")
    try await ControlConnection(invocation).post("/v1/providers/\(pathSegment(name))/disable")
    say("\(name) is off")
}

let providerEnableCommand = Command(
    name: "provider enable", summary: "Switch a push provider on again.", arguments: "PROVIDER",
    options: [Command.configOption],
    examples: ["provider enable fcm"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("PROVIDER")
    try await ControlConnection(invocation).post("/v1/providers/\(pathSegment(name))/enable")
    say("\(name) is on")
}

let feedbackPullCommand = Command(
    name: "feedback pull", summary: "Ask Apple's feedback service for dead tokens now, and remove their devices.",
    arguments: "", options: Command.listOptions,
    examples: ["feedback pull"]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
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
