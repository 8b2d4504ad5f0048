import Control
import Foundation
import ProxyDaemon
import PushSending

/// Commands that show the state of a running daemon, over its control socket.

let heldListCommand = Command(
    name: "held list", summary: "Show the calls that wait for a phone or ring, and which devices.", arguments: "",
    options: Command.listOptions
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    let control = try ControlConnection(invocation)
    var calls: [HeldCallReport] = []
    var next: UInt64? = 0
    while let after = next {
        let page: HeldCallPage = try await control.get("/v1/held?limit=1000&after=\(after)")
        calls += page.calls
        next = page.next
    }
    if try invocation.printJSON(calls) { return }
    print(
        "CALL".padded(to: 18) + "AOR".padded(to: 32) + "SINCE".padded(to: 22)
            + "SLEEPING".padded(to: 14) + "RINGING".padded(to: 14) + "CALL-ID")
    func names(_ devices: [String]) -> String {
        (devices.isEmpty ? "-" : devices.joined(separator: ",")).padded(to: 14)
    }
    for call in calls {
        print(
            call.callRef.padded(to: 18) + call.aor.padded(to: 32)
                + timeText(call.receivedAt).padded(to: 22) + names(call.sleepingDevices) + names(call.ringingDevices)
                + call.callID)
    }
}

let heldEndCommand = Command(
    name: "held end", summary: "End a call that waits for a phone or rings; it becomes a missed call.",
    arguments: "CALL|CALL-ID",
    options: [
        Command.configOption,
        Command.Option(
            name: "--status", value: "STATUS", help: "What the caller gets: 480 (default), 486, 600 or 603."),
    ]
) { invocation throws(Command.Failure) in
    let id = try invocation.onlyArgument("CALL or CALL-ID")
    let status = invocation.value("--status") ?? "480"
    try await ControlConnection(invocation).delete("/v1/held/\(pathSegment(id))?status=\(pathSegment(status))")
    print("ended")
}

let bucketShowCommand = Command(
    name: "bucket show", summary: "Show a user's missed calls that are still to be reported.", arguments: userArgument,
    options: Command.listOptions
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let entries: [BucketEntryReport] = try await ControlConnection(invocation).get(
        "/v1/users/\(pathSegment(aor))/bucket")
    if try invocation.printJSON(entries) { return }
    print("CALL".padded(to: 18) + "CALLER".padded(to: 32) + "DATE".padded(to: 22) + "STATE".padded(to: 10) + "DEVICES")
    for entry in entries {
        print(
            entry.callRef.padded(to: 18) + entry.caller.padded(to: 32) + timeText(entry.date).padded(to: 22)
                + (entry.isOver ? "missed" : "offered").padded(to: 10)
                + entry.devices.joined(separator: ","))
    }
}

let bucketEmptyCommand = Command(
    name: "bucket empty", summary: "Forget a user's missed calls; those that are being offered stay.",
    arguments: userArgument, options: [Command.configOption]
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let report: RemovalReport = try await ControlConnection(invocation).delete("/v1/users/\(pathSegment(aor))/bucket")
    print("\(report.removed) forgotten")
}

let deviceShowCommand = Command(
    name: "device show", summary: "Show a user's devices; tokens are shortened.", arguments: userArgument,
    options: Command.listOptions
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let devices: [BindingReport] = try await ControlConnection(invocation).get(
        "/v1/users/\(pathSegment(aor))/devices")
    if try invocation.printJSON(devices) { return }
    print("DEVICE".padded(to: 8) + "PUSH".padded(to: 24) + "FLOW".padded(to: 32) + "FRESH".padded(to: 8) + "CONTACT")
    for device in devices {
        print(
            device.name.padded(to: 8) + (device.token ?? "-").padded(to: 24)
                + (device.flow ?? "reported").padded(to: 32)
                + (device.isFresh ? "yes" : "no").padded(to: 8) + device.contact)
    }
}

let deviceRemoveCommand = Command(
    name: "device remove", summary: "Remove a user's device, as if it had signed out.",
    arguments: "\(userArgument) DEVICE", options: [Command.configOption]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 2)
    let (aor, device) = (pathSegment(try invocation.user(0)), pathSegment(invocation.arguments[1]))
    try await ControlConnection(invocation).delete("/v1/users/\(aor)/devices/\(device)")
    print("removed")
}

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

let metricsCommand = Command(
    name: "metrics", summary: "Print the daemon's figures as Prometheus reads them.", arguments: "",
    options: [Command.configOption]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    print(try await ControlConnection(invocation).text("/metrics"), terminator: "")
}

// MARK: Text

func timeText(_ seconds: Int64) -> String {
    let style = Date.ISO8601FormatStyle()
    return Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(style)
}

func pathSegment(_ text: String) -> String {
    text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
}

/// What help calls an address of record.
let userArgument = "USER[@DOMAIN]"

extension Command.Invocation {
    /// An argument as an address of record; without a domain at the daemon's first.
    func user(_ index: Int) throws(Command.Failure) -> String {
        let text = arguments[index]
        guard !text.contains("@"), !text.isEmpty, let domain = try settings().domains.first else { return text }
        return "\(text)@\(domain)"
    }

    func onlyUser() throws(Command.Failure) -> String {
        _ = try onlyArgument(userArgument)
        return try user(0)
    }

    func expect(arguments count: Int) throws(Command.Failure) {
        guard arguments.count == count else {
            throw .usage("expected \(count == 1 ? "1 argument" : "\(count) arguments"), found \(arguments.count)")
        }
    }

    func onlyArgument(_ name: String) throws(Command.Failure) -> String {
        guard arguments.count == 1, let first = arguments.first else { throw .usage("expected one argument: \(name)") }
        return first
    }
}
