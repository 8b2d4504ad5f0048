import Control

let bucketShowCommand = Command(
    name: "bucket show", summary: "Show the missed calls that the daemon has not yet reported to a user's phones.",
    arguments: userArgument,
    options: Command.listOptions,
    examples: ["bucket show bob"]
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let entries: [BucketEntryReport] = try await ControlConnection(invocation).get(
        "/v1/users/\(pathSegment(aor))/bucket")
    if try invocation.printJSON(entries) { return }
    let table = Table(("CALL", 18), ("CALLER", 32), ("DATE", 22), ("STATE", 10), ("DEVICES", 0))
    for entry in entries {
        table.row(
            entry.callRef, entry.caller, timeText(entry.date), entry.isOver ? "missed" : "offered",
            entry.devices.joined(separator: ","))
    }
}

let bucketEmptyCommand = Command(
    name: "bucket empty", summary: "Delete a user's missed calls, except calls that are still ringing.",
    arguments: userArgument, options: [Command.configOption],
    examples: ["bucket empty bob@example.net"]
) { invocation throws(Command.Failure) in
    let aor = try invocation.onlyUser()
    let report: RemovalReport = try await ControlConnection(invocation).delete("/v1/users/\(pathSegment(aor))/bucket")
    say("\(report.removed) forgotten")
}
