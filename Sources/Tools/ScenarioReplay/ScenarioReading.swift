package import Settings

extension Scenario {
    /// Reads a scenario from its file `flow.yaml`.
    ///
    /// - Parameters:
    ///   - bytes: the contents of the file.
    ///   - name: the name of the scenario.
    ///   - file: the name of the file for error messages.
    /// - Returns: the scenario, in which each step that another step waits for exists.
    /// - Throws: all errors in the file, each with its line.
    package static func read(_ bytes: [UInt8], name: String, file: String) throws(SettingsError) -> Scenario {
        let root = try YAMLNode.read(bytes, file: file)
        var reader = ScenarioReader(problems: SettingsProblems(file: file))
        let scenario = reader.scenario(root, name: name)
        try reader.problems.throwIfAny()
        return scenario
    }
}

private struct ScenarioReader {
    var problems: SettingsProblems

    mutating func scenario(_ root: YAMLNode, name: String) -> Scenario {
        let keys = [
            "about", "daemon", "users", "tokens", "subscriptions", "actors", "commands", "requests", "pushes", "quiet",
        ]
        let entries = known(keys, in: root, "a scenario")
        let actors = list(entries["actors"]).compactMap { $0["run"] == nil ? actor($0) : program($0) }
        let commands = list(entries["commands"]).compactMap { command($0) }
        let requests = list(entries["requests"]).compactMap { request($0) }
        if actors.isEmpty { problems.report("expected at least one actor", at: root.position) }
        checkNames(actors + commands + requests)
        return Scenario(
            name: name, about: text(entries["about"]) ?? "", daemon: entries["daemon"] ?? Scenario(name: name).daemon,
            users: users(entries["users"]), tokens: tokens(entries["tokens"]),
            subscriptions: list(entries["subscriptions"]).compactMap { text($0) },
            steps: (actors + commands + requests).map(\.step), pushes: list(entries["pushes"]).flatMap { pushes($0) },
            quiet: duration(entries["quiet"]) ?? .milliseconds(300))
    }

    /// A step with its position in the file, for errors that are found after all steps were read.
    typealias PlacedStep = (step: ScenarioStep, position: YAMLPosition)

    private mutating func actor(_ node: YAMLNode) -> PlacedStep? {
        let keys = ["name", "play", "role", "transport", "place", "address", "to", "keys", "start", "exit"]
        let entries = known(keys, in: node, "an actor")
        guard let name = required("name", entries, node), let file = required("play", entries, node) else { return nil }
        let role = choice(Actor.Role.self, entries["role"]) ?? .phone
        let actor = Actor(
            file: file, role: role, transport: choice(Actor.Transport.self, entries["transport"]) ?? .udp,
            place: text(entries["place"]) ?? (role == .pbx ? "pbx" : name), address: text(entries["address"]),
            peer: text(entries["to"]), keys: texts(entries["keys"]))
        let step = ScenarioStep(
            name: name, start: start(entries["start"]), work: .play(actor), exit: integer(entries["exit"]) ?? 0)
        return (step, node.position)
    }

    private mutating func program(_ node: YAMLNode) -> PlacedStep? {
        let keys = [
            "name", "run", "needs", "role", "place", "address", "keys", "says", "start", "kill", "stop", "exit",
        ]
        let entries = known(keys, in: node, "a program")
        guard let name = required("name", entries, node), let script = required("run", entries, node) else {
            return nil
        }
        let ends = [(Program.End.kill, entries["kill"]), (.stop, entries["stop"])].filter { $0.1 != nil }
        guard let (end, condition) = ends.first, ends.count == 1 else {
            problems.report("expected a kill or a stop: a program does not end by itself", at: node.position)
            return nil
        }
        let role = choice(Actor.Role.self, entries["role"]) ?? .phone
        let program = Program(
            script: script, needs: text(entries["needs"]), role: role,
            place: text(entries["place"]) ?? (role == .pbx ? "pbx" : name), address: text(entries["address"]),
            keys: texts(entries["keys"]), says: text(entries["says"]), end: end, endsWhen: start(condition))
        let step = ScenarioStep(
            name: name, start: start(entries["start"]), work: .run(program),
            exit: integer(entries["exit"]) ?? (end == .kill ? Program.killed : 0))
        return (step, node.position)
    }

    private mutating func command(_ node: YAMLNode) -> PlacedStep? {
        let entries = known(["name", "run", "start", "exit"], in: node, "a command")
        guard let run = required("run", entries, node) else { return nil }
        let step = ScenarioStep(
            name: text(entries["name"]) ?? run, start: start(entries["start"]),
            work: .command(run.split(separator: " ").map(String.init)), exit: integer(entries["exit"]) ?? 0)
        return (step, node.position)
    }

    private mutating func request(_ node: YAMLNode) -> PlacedStep? {
        let keys = ["name", "send", "key", "fields", "body", "status", "answer", "start"]
        let entries = known(keys, in: node, "a request")
        guard let send = required("send", entries, node) else { return nil }
        let words = send.split(separator: " ").map(String.init)
        guard words.count == 2, words[1].hasPrefix("/") else {
            problems.report("expected a method and a path, such as GET /healthz", at: node.position)
            return nil
        }
        let request = APIRequest(
            method: words[0], target: words[1], fields: texts(entries["fields"]), scopes: text(entries["key"]),
            body: text(entries["body"]), status: integer(entries["status"]) ?? 200, answer: texts(entries["answer"]))
        let step = ScenarioStep(
            name: text(entries["name"]) ?? send, start: start(entries["start"]), work: .request(request), exit: 0)
        return (step, node.position)
    }

    private mutating func start(_ node: YAMLNode?) -> StartCondition {
        guard let node else { return .atOnce }
        let entries = known(["after", "answered", "push", "nth", "hook", "delay"], in: node, "a start condition")
        var start = StartCondition()
        if let after = entries["after"] {
            start.after = after.text.map { [$0] } ?? list(after).compactMap { text($0) }
        }
        start.answered = text(entries["answered"])
        if let token = text(entries["push"]) {
            start.push = StartCondition.Push(token: token, nth: integer(entries["nth"]) ?? 1)
        } else if let nth = entries["nth"] {
            problems.report("nth says which push, but there is no push", at: nth.position)
        }
        start.hook = text(entries["hook"])
        start.delay = duration(entries["delay"]) ?? .zero
        return start
    }

    /// Reads one entry of the expected pushes, which stands for `count` pushes if it has that member.
    private mutating func pushes(_ node: YAMLNode) -> [ExpectedPush] {
        let entries = known(["token", "type", "count", "status", "service", "fields"], in: node, "a push")
        guard let token = required("token", entries, node), let type = required("type", entries, node) else {
            return []
        }
        let push = ExpectedPush(
            token: token, type: type, status: integer(entries["status"]), service: text(entries["service"]),
            fields: texts(entries["fields"]))
        let count = integer(entries["count"]) ?? 1
        guard (1...100).contains(count) else {
            problems.report("expected a count from 1 to 100, found \(count)", at: node.position)
            return []
        }
        return Array(repeating: push, count: count)
    }

    private mutating func users(_ node: YAMLNode?) -> [ScenarioUser] {
        texts(node).sorted { $0.key < $1.key }.map { ScenarioUser(name: $0.key, password: $0.value) }
    }

    private mutating func tokens(_ node: YAMLNode?) -> [TokenFault] {
        var faults: [TokenFault] = []
        for entry in group(node) {
            let keys = [
                "status", "reason", "times", "timestamp", "retry_after", "delay_ms", "action", "registration_id",
            ]
            let plan = known(keys, in: entry.value, "a token").compactMapValues { text($0) }
            guard !plan.isEmpty else {
                problems.report("expected the members of a failure plan", at: entry.value.position)
                continue
            }
            faults.append(TokenFault(token: entry.key, plan: plan))
        }
        return faults
    }

    private mutating func checkNames(_ steps: [PlacedStep]) {
        var names: Set<String> = []
        for (step, position) in steps where !names.insert(step.name).inserted {
            problems.report("two steps are called \(quoted(step.name))", at: position)
        }
        // The steps that `answered` can name: steps that receive a 200, and steps that run a PBX.
        let told = Set(
            steps.filter { step, _ in
                step.actor != nil || step.program?.says != nil || step.program?.role == .pbx
            }.map(\.step.name))
        let places = Set(steps.compactMap(\.step.place))
        for (step, position) in steps {
            check(step.start, of: names.subtracting([step.name]), told: told.subtracting([step.name]), at: position)
            if let peer = step.actor?.peer, !places.contains(peer) {
                problems.report("cannot talk to \(quoted(peer)): no such place", at: position)
            }
            guard let program = step.program else { continue }
            check(program.endsWhen, of: names.subtracting([step.name]), told: told, at: position)
        }
    }

    private mutating func check(
        _ condition: StartCondition, of names: Set<String>, told: Set<String>, at position: YAMLPosition
    ) {
        for name in condition.after where !names.contains(name) {
            problems.report("cannot come after \(quoted(name)): no such step", at: position)
        }
        if let name = condition.answered, !told.contains(name) {
            problems.report("cannot wait for \(quoted(name)): no such actor", at: position)
        }
    }
}

// MARK: Values

extension ScenarioReader {
    private mutating func known(_ keys: [String], in node: YAMLNode, _ what: String) -> [String: YAMLNode] {
        var found: [String: YAMLNode] = [:]
        for entry in group(node) {
            if keys.contains(entry.key) {
                found[entry.key] = entry.value
            } else {
                let name = quoted(entry.key)
                let message = "unknown key \(name) in \(what), expected one of \(keys.joined(separator: ", "))"
                problems.report(message, at: entry.keyPosition)
            }
        }
        return found
    }

    private mutating func group(_ node: YAMLNode?) -> [YAMLEntry] {
        guard let node else { return [] }
        if let entries = node.entries { return entries }
        problems.report("expected a group of keys, found \(node.found)", at: node.position)
        return []
    }

    private mutating func list(_ node: YAMLNode?) -> [YAMLNode] {
        guard let node else { return [] }
        if let items = node.items { return items }
        problems.report("expected a list, found \(node.found)", at: node.position)
        return []
    }

    private mutating func required(_ key: String, _ entries: [String: YAMLNode], _ node: YAMLNode) -> String? {
        guard let value = entries[key] else {
            problems.report("expected a \(key)", at: node.position)
            return nil
        }
        return text(value)
    }

    private mutating func text(_ node: YAMLNode?) -> String? {
        guard let node else { return nil }
        if let text = node.text { return text }
        problems.report("expected a text, found \(node.found)", at: node.position)
        return nil
    }

    private mutating func texts(_ node: YAMLNode?) -> [String: String] {
        var found: [String: String] = [:]
        for entry in group(node) { found[entry.key] = text(entry.value) }
        return found
    }

    private mutating func integer(_ node: YAMLNode?) -> Int? {
        guard let node else { return nil }
        if let integer = node.integer { return integer }
        problems.report("expected a whole number, found \(node.found)", at: node.position)
        return nil
    }

    /// Reads a duration in seconds or milliseconds, such as `2s` or `300ms`.
    private mutating func duration(_ node: YAMLNode?) -> Duration? {
        guard let node else { return nil }
        if let text = node.text {
            if text.hasSuffix("ms"), let count = Int(text.dropLast(2)), (0...60_000).contains(count) {
                return .milliseconds(count)
            }
            if text.hasSuffix("s"), let count = Int(text.dropLast()), (0...60).contains(count) {
                return .seconds(count)
            }
        }
        problems.report("expected a time such as 300ms or 2s, found \(node.found)", at: node.position)
        return nil
    }

    private mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _: Choice.Type, _ node: YAMLNode?
    ) -> Choice? {
        guard let node else { return nil }
        if let text = node.text, let choice = Choice(rawValue: text) { return choice }
        let names = Choice.allCases.map(\.rawValue).joined(separator: " or ")
        problems.report("expected \(names), found \(node.found)", at: node.position)
        return nil
    }
}

private func quoted(_ text: String) -> String { "\"\(text)\"" }
