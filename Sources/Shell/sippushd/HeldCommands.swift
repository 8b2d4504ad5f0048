import Control
import HTTPServices

let heldListCommand = Command(
    name: "held list", summary: "Show the calls that ring or wait for a phone, and their devices.",
    options: Command.listOptions,
    examples: ["held list"]
) { invocation throws(Command.Failure) in
    var missing: Set<MissingNode> = []
    var calls = try await ControlConnection(invocation).list(
        "/v1/held",
        { (page: HeldCallPage) in
            missing.formUnion(page.missingNodes ?? [])
            return page.calls
        }, next: \.next)
    calls.sort { ($0.receivedAt, $0.node ?? "", $0.id) < ($1.receivedAt, $1.node ?? "", $1.id) }
    let complaints = missing.sorted { $0.node < $1.node }.map {
        "node \($0.node) did not answer, so its calls are missing: \($0.reason)"
    }
    guard try !invocation.printJSON(calls) else { return complain(complaints) }
    let table = Table(
        ("CALL", 18), ("AOR", 32), ("CALLER", 32), ("SINCE", 22), ("NODE", 12), ("SLEEPING", 14), ("RINGING", 14),
        ("CALL-ID", 0))
    func names(_ devices: [String]) -> String { devices.isEmpty ? "-" : devices.joined(separator: ",") }
    for call in calls {
        table.row(
            call.callRef, call.aor, call.caller, timeText(call.receivedAt), call.node ?? "-",
            names(call.sleepingDevices), names(call.ringingDevices), call.callID)
    }
    complain(complaints)
}

let heldEndCommand = Command(
    name: "held end", summary: "End a call that rings or waits for a phone. The ended call becomes a missed call.",
    arguments: "CALL|CALL-ID",
    options: [
        Command.configOption,
        Command.Option(
            name: "--status", value: "STATUS",
            help: "The final response that the caller gets: 480 (default), 486, 600 or 603.",
            choices: ["480", "486", "600", "603"]),
        Command.Option(
            name: "--node", value: "NODE",
            help: "The node at which the call waits, if calls at several nodes of a cluster have the same name."),
    ],
    examples: ["held end a84b4c76e66710@pbx --status 486"]
) { invocation throws(Command.Failure) in
    let id = try invocation.onlyArgument("CALL or CALL-ID")
    let status = invocation.value("--status") ?? "480"
    let node = invocation.value("--node").map { "&node=\(pathSegment($0))" } ?? ""
    try await ControlConnection(invocation).delete("/v1/held/\(pathSegment(id))?status=\(pathSegment(status))\(node)")
    say("ended")
}
