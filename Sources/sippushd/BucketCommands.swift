import Control

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
