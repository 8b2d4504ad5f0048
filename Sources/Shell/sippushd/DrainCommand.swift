import Control

let drainCommand = Command(
    name: "drain", summary: "Begin no more calls, and end the daemon when those that wait or ring have ended.",
    arguments: "",
    options: [
        Command.configOption,
        Command.Option(
            name: "--within", value: "SECONDS", help: "End after that time in any case; 30 if it is not given."),
    ]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    let time = invocation.value("--within").map { "?within=\(pathSegment($0))" } ?? ""
    let report: DrainReport = try await ControlConnection(invocation).post("/v1/drain\(time)", timeout: .seconds(10))
    say(report.calls == 0 ? "no call waits or rings; the daemon ends" : "\(report.calls) calls wait or ring")
}
