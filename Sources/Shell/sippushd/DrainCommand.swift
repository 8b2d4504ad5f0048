import Control

let drainCommand = Command(
    name: "drain", summary: "Refuse new calls, and stop the daemon when the calls that wait or ring have ended.",
    options: [
        Command.configOption,
        Command.Option(
            name: "--within", value: "SECONDS",
            help: "The number of seconds after which the daemon stops even if calls still wait or ring (default: 30)."),
    ],
    examples: ["drain --within 60"]
) { invocation throws(Command.Failure) in
    let time = invocation.value("--within").map { "?within=\(pathSegment($0))" } ?? ""
    let report: DrainReport = try await ControlConnection(invocation).post("/v1/drain\(time)", timeout: .seconds(10))
    say(report.calls == 0 ? "no call waits or rings; the daemon stops" : "\(report.calls) calls wait or ring")
}
