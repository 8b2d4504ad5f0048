import Control
import HTTPServices
import Glibc
import ProxyRuntime

let topCommand = Command(
    name: "top", summary: "Show rates, calls that wait or ring, and the slowest pushes, each second.",
    options: [
        Command.configOption,
        Command.Option(name: "--once", value: nil, help: "Print the values of one second, and end the command."),
    ],
    examples: ["top", "top --once"]
) { invocation throws(Command.Failure) in
    let control = try ControlConnection(invocation)
    var earlier = try await TopText.look(control)
    while true {
        usleep(1_000_000)
        let now = try await TopText.look(control)
        if !invocation.has("--once") { clearScreen() }
        say(TopText.lines(now, since: earlier))
        flushOutput()
        guard !invocation.has("--once") else { return }
        earlier = now
    }
}

/// The values of `sippushd top`.
enum TopText {
    struct Look {
        /// The samples of the metrics, by name and labels.
        var samples: [String: Double]
        var held: [HeldCallReport]
        var slowest: [SlowPush]
        /// The time of the samples by the monotonic clock, in seconds.
        var time: Double
        /// The nodes of a cluster that did not answer, so that their calls are missing.
        var missing: [MissingNode] = []
    }

    static func look(_ control: ControlConnection) async throws(Command.Failure) -> Look {
        let samples = samples(of: try await control.text("/metrics"))
        let page: HeldCallPage = try await control.get("/v1/held?limit=1000&after=0")
        let slowest: [SlowPush] = try await control.get("/v1/top")
        var clock = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &clock)
        return Look(
            samples: samples, held: page.calls, slowest: slowest,
            time: Double(clock.tv_sec) + Double(clock.tv_nsec) / 1_000_000_000,
            missing: page.missingNodes ?? [])
    }

    static func samples(of text: String) -> [String: Double] {
        var samples: [String: Double] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else {
                continue
            }
            samples[String(line[..<space])] = value
        }
        return samples
    }

    static func lines(_ now: Look, since earlier: Look) -> [String] {
        let time = max(now.time - earlier.time, 0.001)
        func rate(_ name: String) -> String {
            tenths(((now.samples[name] ?? 0) - (earlier.samples[name] ?? 0)) / time)
        }
        func rate(of family: String) -> String {
            func sum(_ look: Look) -> Double {
                look.samples.filter { $0.key == family || $0.key.hasPrefix(family + "{") }.values.reduce(0, +)
            }
            return tenths((sum(now) - sum(earlier)) / time)
        }
        let requests = ["REGISTER", "INVITE", "MESSAGE", "OPTIONS", "other"].map {
            "\($0) \(rate("sippushd_sip_requests_total{method=\"\($0)\"}"))"
        }
        var lines = [
            "requests/s   " + requests.joined(separator: "  "),
            "calls/s      offered \(rate(of: "sippushd_calls_total"))  from phones \(rate(of: "sippushd_outgoing_calls_total"))  refused \(rate(of: "sippushd_calls_refused_total"))",
            "pushes/s     sent \(rate(of: "sippushd_pushes_sent_total"))  accepted \(pushes("accepted", now, earlier, time))  retried \(rate(of: "sippushd_push_retries_total"))",
            "connections  \(Int(now.samples["sippushd_connections"] ?? 0))",
            "",
            "calls that wait or ring: \(now.held.count)\(now.held.count == 1000 ? " or more" : "")",
        ]
        lines += now.missing.map { "  node \($0.node) did not answer, so its calls are missing: \($0.reason)" }
        for call in now.held.prefix(10) {
            let devices =
                call.sleepingDevices.isEmpty ? "rings" : "waits for \(call.sleepingDevices.joined(separator: ","))"
            lines.append("  \(timeText(call.receivedAt))  \(call.aor.padded(to: 32)) \(devices)  \(call.callID)")
        }
        lines += ["", "slowest pushes of the last minute, since top looks:"]
        for push in now.slowest.prefix(5) {
            lines.append(
                "  \("\(push.milliseconds) ms".padded(to: 10)) \(push.provider.padded(to: 10)) \(push.device)  HTTP \(push.status)"
            )
        }
        return lines
    }

    private static func pushes(_ outcome: String, _ now: Look, _ earlier: Look, _ time: Double) -> String {
        func sum(_ look: Look) -> Double {
            look.samples.filter {
                $0.key.hasPrefix("sippushd_pushes_ended_total{") && $0.key.contains("outcome=\"\(outcome)\"")
            }.values.reduce(0, +)
        }
        return tenths((sum(now) - sum(earlier)) / time)
    }

    private static func tenths(_ number: Double) -> String {
        let tenths = Int64(max(0, min(number, 1e9)) * 10 + 0.5)
        return "\(tenths / 10).\(tenths % 10)"
    }
}
