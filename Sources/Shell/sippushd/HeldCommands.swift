import Control

let heldListCommand = Command(
    name: "held list", summary: "Show the calls that ring or wait for a phone, and their devices.",
    options: Command.listOptions,
    examples: ["held list"]
) { invocation throws(Command.Failure) in
    let calls = try await ControlConnection(invocation).list("/v1/held", \HeldCallPage.calls, next: \.next)
    if try invocation.printJSON(calls) { return }
    let table = Table(
        ("CALL", 18), ("AOR", 32), ("CALLER", 32), ("SINCE", 22), ("SLEEPING", 14), ("RINGING", 14), ("CALL-ID", 0))
    func names(_ devices: [String]) -> String { devices.isEmpty ? "-" : devices.joined(separator: ",") }
    for call in calls {
        table.row(
            call.callRef, call.aor, call.caller, timeText(call.receivedAt), names(call.sleepingDevices),
            names(call.ringingDevices),
            call.callID)
    }
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
    ],
    examples: ["held end a84b4c76e66710@pbx --status 486"]
) { invocation throws(Command.Failure) in
    let id = try invocation.onlyArgument("CALL or CALL-ID")
    let status = invocation.value("--status") ?? "480"
    try await ControlConnection(invocation).delete("/v1/held/\(pathSegment(id))?status=\(pathSegment(status))")
    say("ended")
}
