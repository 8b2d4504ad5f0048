import Control
import Glibc
import ProxyRuntime
import Settings
import Timekeeping

let traceCommand = Command(
    name: "trace",
    summary:
        "Show the SIP messages and pushes of a user as they happen. The output has the letter x instead of secrets.",
    arguments: "USER[@DOMAIN]",
    options: [
        Command.configOption,
        Command.Option(
            name: "--for", value: "TIME",
            help: "The time after which the command ends, such as 30s, 10m or 1h (default: 10m)."),
        Command.Option(name: "--full", value: nil, help: "Show the whole messages instead of their first lines."),
    ],
    examples: ["trace bob --for 10m", "trace bob@example.net --full"]
) { invocation throws(Command.Failure) in
    let user = try invocation.onlyArgument("a user")
    let text = invocation.value("--for") ?? "10m"
    guard let time = QuantityText.duration(text), case let seconds = time.nanoseconds / 1_000_000_000,
        (1...86_400).contains(seconds)
    else { throw .usage("--for takes a time from 1s to 24h, such as 10m") }
    let control = try ControlConnection(invocation)
    let wish = TraceRequest(user: user, seconds: seconds, keepsText: invocation.has("--full"))
    let trace: TraceNumber = try await control.post("/v1/traces", wish, timeout: .seconds(10))
    say("waiting for messages of \(user); end with Ctrl-C")
    while true {
        flushOutput()
        usleep(TraceText.pause)
        let report: TraceReport = try await control.get("/v1/traces/\(trace.number)")
        for event in report.events { say(TraceText.lines(of: event)) }
        if report.dropped > 0 { say("(\(report.dropped) events were dropped, because too many came at once)") }
        guard !report.isOver else { return }
    }
}

/// The lines of a trace: one for each message or push, as rungs of a ladder between the peer and the daemon.
enum TraceText {
    /// The time after which the command fetches the events of a trace again, in microseconds.
    static let pause: UInt32 = 200_000

    static func lines(of event: TraceEvent) -> [String] {
        let arrow = event.transport == "push" ? "===" : event.isIncoming ? "-->" : "<--"
        let side = event.transport == "push" ? "push" : "\(event.peer) \(event.transport)"
        let first = "\(clock(event.time))  \(side.padded(to: 28)) \(arrow)  \(event.line)  [\(event.callID)]"
        guard let text = event.text else { return [first] }
        let rest = text.split(separator: "\r\n", omittingEmptySubsequences: false).dropFirst()
        return [first] + rest.map { "    \($0)" }
    }

    /// The time of day in UTC, with milliseconds.
    static func clock(_ microseconds: Int64) -> String {
        let milliseconds = max(0, microseconds) / 1000 % 86_400_000
        func digits(_ number: Int64, _ count: Int) -> String {
            let text = "\(number)"
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000)
        return
            "\(digits(seconds / 3600, 2)):\(digits(seconds / 60 % 60, 2)):\(digits(seconds % 60, 2)).\(digits(rest, 3))"
    }
}
