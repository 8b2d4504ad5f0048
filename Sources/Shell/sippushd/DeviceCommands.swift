import Control

let deviceShowCommand = Command(
    name: "device show", summary: "Show a user's devices, with the beginning of each push token.",
    arguments: userArgument,
    options: Command.listOptions,
    examples: ["device show bob"]
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let devices: [BindingReport] = try await ControlConnection(invocation).get(
        "/v1/users/\(pathSegment(aor))/devices")
    if try invocation.printJSON(devices) { return }
    guard !devices.isEmpty else { return say("\(aor) has no device") }
    let table = Table(
        ("DEVICE", 8), ("STATE", 9), ("NODE", 12), ("APP", 16), ("PUSH", 24), ("LAST PUSH", 40), ("FLOW", 32),
        ("FRESH", 8),
        ("USER AGENT", 32), ("CONTACT", 0))
    for device in devices {
        let push = device.lastPushAt.map { "\(Words.date($0 * 1000)) \(device.lastPush ?? "")" }
        table.row(
            device.name, device.state, device.node ?? "-", device.app ?? "-", device.token ?? "-", push ?? "-",
            device.flow ?? "reported",
            device.isFresh ? "yes" : "no", device.userAgent ?? "-", device.contact)
    }
    complain(
        devices.compactMap { device in
            device.nodeProblem.map {
                "node \(device.node ?? "") did not answer, so the state of \(device.name) is unknown: \($0)"
            }
        })
}

let deviceRemoveCommand = Command(
    name: "device remove", summary: "Remove a device of a user. The device gets no calls until it registers again.",
    arguments: "\(userArgument) DEVICE", options: [Command.configOption],
    examples: ["device remove bob r2rp2"]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 2)
    let (aor, device) = (pathSegment(try invocation.user(0)), pathSegment(invocation.arguments[1]))
    try await ControlConnection(invocation).delete("/v1/users/\(aor)/devices/\(device)")
    say("removed")
}
