import Control
import PushSending

let providerListCommand = Command(
    name: "provider list", summary: "Show the push providers, and how each app's pushes have fared.", arguments: "",
    options: Command.listOptions
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    let providers: [ProviderReport] = try await ControlConnection(invocation).get("/v1/providers")
    if try invocation.printJSON(providers) { return }
    let heads = ["ACCEPTED", "FAILED", "DEAD TOKENS", "REFUSED", "WAITING", "SENT"]
    print("APP".padded(to: 24) + "STATE".padded(to: 14) + heads.map { $0.padded(to: 13) }.joined())
    for provider in providers {
        if provider.apps.isEmpty { print(provider.name.padded(to: 24) + (provider.isEnabled ? "on" : "off")) }
        for app in provider.apps {
            let state = !provider.isEnabled ? "off" : app.isReachable ? "on" : "not reached"
            let figures = [
                app.accepted, app.failed, app.deadTokens, app.credentialsRefused, app.queued, app.inFlight,
            ]
            print(
                app.name.padded(to: 24) + state.padded(to: 14) + figures.map { "\($0)".padded(to: 13) }.joined())
            if let refusal = app.refusal { print("    refuses us: \(refusal)") }
        }
    }
}

let providerDisableCommand = Command(
    name: "provider disable",
    summary: "Switch a push provider off: its fresh devices become ordinary, expired ones go; kept over restarts.",
    arguments: "PROVIDER", options: [Command.configOption]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("PROVIDER")
    try await ControlConnection(invocation).post("/v1/providers/\(pathSegment(name))/disable")
    print("\(name) is off")
}

let providerEnableCommand = Command(
    name: "provider enable", summary: "Switch a push provider on again.", arguments: "PROVIDER",
    options: [Command.configOption]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyArgument("PROVIDER")
    try await ControlConnection(invocation).post("/v1/providers/\(pathSegment(name))/enable")
    print("\(name) is on")
}

let feedbackPullCommand = Command(
    name: "feedback pull", summary: "Ask Apple's feedback service for dead tokens now and drop their devices.",
    arguments: "", options: Command.listOptions
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    let report: FeedbackReport = try await ControlConnection(invocation).post(
        "/v1/feedback/pull", timeout: .seconds(600))
    if try !invocation.printJSON(report) {
        print("records".padded(to: 20) + "\(report.records)")
        print("devices dropped".padded(to: 20) + "\(report.contactsDropped)")
        print("registered later".padded(to: 20) + "\(report.ignoredAsOlder)")
        print("unknown".padded(to: 20) + "\(report.unknown)")
    }
    guard report.failures.isEmpty else { throw .failed(report.failures.joined(separator: "\n")) }
}
