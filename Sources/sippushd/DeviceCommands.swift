import Control

let deviceShowCommand = Command(
    name: "device show", summary: "Show a user's devices; tokens are shortened.", arguments: userArgument,
    options: Command.listOptions
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let devices: [BindingReport] = try await ControlConnection(invocation).get(
        "/v1/users/\(pathSegment(aor))/devices")
    if try invocation.printJSON(devices) { return }
    let table = Table(("DEVICE", 8), ("PUSH", 24), ("FLOW", 32), ("FRESH", 8), ("CONTACT", 0))
    for device in devices {
        table.row(
            device.name, device.token ?? "-", device.flow ?? "reported", device.isFresh ? "yes" : "no", device.contact)
    }
}

let deviceRemoveCommand = Command(
    name: "device remove", summary: "Remove a user's device, as if it had signed out.",
    arguments: "\(userArgument) DEVICE", options: [Command.configOption]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 2)
    let (aor, device) = (pathSegment(try invocation.user(0)), pathSegment(invocation.arguments[1]))
    try await ControlConnection(invocation).delete("/v1/users/\(aor)/devices/\(device)")
    say("removed")
}
