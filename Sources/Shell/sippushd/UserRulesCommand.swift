import Bytes
import Control
import ProxyDaemon
import ProxyRuntime

private let ruleOptions = [
    Command.Option(
        name: "--order", value: "ORDER",
        help:
            "The order in which the devices ring: 'parallel', 'q', or 'q-in-turn' (default: the setting 'call.ring-order').",
        choices: ["parallel", "q", "q-in-turn"]),
    Command.Option(
        name: "--group-time", value: "SECONDS",
        help: "The time between two groups of devices (default: the setting 'call.group-time')."),
    Command.Option(
        name: "--delay", value: "DEVICES",
        help:
            "Devices that ring later, with the delay in seconds, separated by commas. Write 'push=10' for all devices with push token, 'ordinary=5' for all others, or the name of a device."
    ),
    Command.Option(
        name: "--do-not-disturb", value: "WHEN",
        help:
            "When no device rings: 'always', or times separated by commas, such as 22:00-07:00, mon-fri@22:00-07:00 or sat+sun@00:00-00:00."
    ),
    Command.Option(
        name: "--time-zone", value: "ZONE",
        help: "The time zone of the times in '--do-not-disturb', such as Europe/Berlin."),
    Command.Option(
        name: "--status", value: "STATUS", help: "The response to callers while no device rings (default: 480).",
        choices: ["480", "486", "600", "603"]),
    Command.Option(
        name: "--except", value: "CALLERS",
        help: "Callers for whom the devices always ring, separated by commas: user names, or user@domain."),
    Command.Option(
        name: "--file", value: "FILE", help: "Read the rules from a JSON file, or with '-' from standard input."),
]

let userRulesCommand = Command(
    name: "user rules",
    summary:
        "Show, set or clear a user's rules for calls: which devices ring later, and when no device rings. The word 'set' replaces all rules of the user.",
    arguments: "\(userArgument) [show|set|clear]",
    options: [
        Command.configOption, Command.Option(name: "--json", value: nil, help: "Show the rules as JSON."),
    ] + ruleOptions,
    examples: [
        "user rules bob", "user rules bob set --delay push=10",
        "user rules bob set --do-not-disturb 22:00-07:00 --time-zone Europe/Berlin", "user rules bob clear",
    ]
) { invocation throws(Command.Failure) in
    guard (1...2).contains(invocation.arguments.count) else {
        throw .usage("expected \(userArgument), and show, set or clear")
    }
    let name = try invocation.user(0)
    let path = "/v1/users/\(pathSegment(name))/rules"
    switch invocation.arguments.dropFirst().first ?? "show" {
    case "show":
        let rules: UserRulesBody = try await invocation.askDaemon { control throws(Command.Failure) in
            try await control.get(path)
        } orStore: { store throws(StartError) in
            try store.rules(of: name)
        }
        if try invocation.printJSON(rules) { return }
        for line in rules.lines { say(line) }
    case "set":
        let rules = try invocation.rules()
        try await invocation.askDaemon { control throws(Command.Failure) in
            try await control.put(path, rules)
        } orStore: { store throws(StartError) in
            try store.set(rules, of: name)
        }
        say("set")
    case "clear":
        try await invocation.askDaemon { control throws(Command.Failure) in
            try await control.delete(path)
        } orStore: { store throws(StartError) in
            try store.set(UserRulesBody(), of: name)
        }
        say("cleared")
    case let other: throw .usage("expected show, set or clear, found \(other)")
    }
}

extension Command.Invocation {
    /// Reads rules from the options, or from a file with JSON.
    fileprivate func rules() throws(Command.Failure) -> UserRulesBody {
        let given = ruleOptions.map(\.name).filter(has)
        guard !given.isEmpty else {
            throw .usage("expected at least one of \(ruleOptions.map(\.name).joined(separator: ", "))")
        }
        if let path = value("--file") {
            guard given.count == 1 else {
                throw .usage(
                    "--file has all rules, so it excludes \(given.filter { $0 != "--file" }.joined(separator: ", "))")
            }
            return try rules(inFile: path)
        }
        var rules = UserRulesBody()
        rules.order = value("--order")
        if let text = value("--group-time") { rules.groupTime = try Self.seconds(text, "--group-time") }
        if let text = value("--delay") { rules.devices = try Self.delays(text) }
        rules.doNotDisturb = try doNotDisturb()
        return rules
    }

    private func rules(inFile path: String) throws(Command.Failure) -> UserRulesBody {
        var file = try LineFile(path: path)
        var bytes: [UInt8] = []
        while let line = try file.next() {
            guard case .bytes(let text) = line, bytes.count <= 1 << 16 else {
                throw .failed("\(path): the rules are longer than 64 kB")
            }
            bytes += text + [UInt8(ascii: "\n")]
        }
        do throws(UserRulesBody.Fault) {
            return try UserRulesBody(json: bytes)
        } catch {
            throw .failed("\(path): \(error.sentence)")
        }
    }

    private func doNotDisturb() throws(Command.Failure) -> DoNotDisturbBody? {
        guard let text = value("--do-not-disturb") else {
            guard !has("--time-zone"), !has("--status"), !has("--except") else {
                throw .usage("--time-zone, --status and --except need --do-not-disturb")
            }
            return nil
        }
        var rule = DoNotDisturbBody()
        if text == "always" { rule.always = true } else { rule.windows = try Self.list(text).map(Self.window) }
        rule.timeZone = value("--time-zone")
        if let status = value("--status") {
            guard let number = Int(status) else { throw .usage("--status takes 480, 486, 600 or 603") }
            rule.status = number
        }
        rule.except = value("--except").map(Self.list)
        return rule
    }

    private static func list(_ text: String) -> [String] {
        text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }

    private static func seconds(_ text: String, _ name: String) throws(Command.Failure) -> Seconds {
        guard let number = Double(text), let milliseconds = Int64(exactly: (number * 1000).rounded()) else {
            throw .usage("\(name) takes seconds, such as 10 or 2.5")
        }
        return Seconds(milliseconds: milliseconds)
    }

    private static func delays(_ text: String) throws(Command.Failure) -> [DeviceRuleBody] {
        var delays: [DeviceRuleBody] = []
        for entry in list(text) {
            guard let place = entry.lastIndex(of: "="), place != entry.startIndex else {
                throw .usage("--delay takes DEVICE=SECONDS, separated by commas, such as push=10")
            }
            delays.append(
                DeviceRuleBody(
                    device: String(entry[..<place]),
                    delay: try seconds(String(entry[entry.index(after: place)...]), "--delay")))
        }
        return delays
    }

    /// Reads a window such as `mon-fri@22:00-07:00`.
    private static func window(_ text: String) throws(Command.Failure) -> WindowBody {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        let times = parts.last?.split(separator: "-", omittingEmptySubsequences: false) ?? []
        guard parts.count <= 2, times.count == 2 else {
            throw .usage("--do-not-disturb takes always, or windows such as 22:00-07:00 or mon-fri@22:00-07:00")
        }
        guard parts.count == 2 else { return WindowBody(from: String(times[0]), to: String(times[1])) }
        var days: [String] = []
        for part in parts[0].split(separator: "+") { days += try self.days(part) }
        return WindowBody(days: days, from: String(times[0]), to: String(times[1]))
    }

    /// Reads a day such as `mon`, or a span of days such as `fri-mon`.
    private static func days(_ text: Substring) throws(Command.Failure) -> [String] {
        let names = WindowBody.dayNames
        let ends = text.split(separator: "-").map { names.firstIndex(of: $0.lowercased()) }
        guard (1...2).contains(ends.count), let first = ends.first ?? nil, let last = ends.last ?? nil else {
            throw .usage("a day is one of \(names.joined(separator: ", "))")
        }
        let count = (last - first + names.count) % names.count
        return (0...count).map { names[(first + $0) % names.count] }
    }
}
