import Control

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
