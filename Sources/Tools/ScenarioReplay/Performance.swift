import Foundation

/// Plays one scenario: starts its steps when their conditions are true, and checks the programs' exits.
final class Performance {
    private let scenario: Scenario
    private let stage: Stage
    private let scenarioFolder: URL
    private let folder: URL
    private let places: [String: Place]
    private var running: [String: Child] = [:]
    private var ended: [String: Int] = [:]
    /// For each step that waits for its start, and each program that waits for its end: the time since which the
    /// condition has been true.
    private var due: [Moment: Date] = [:]
    private var started: [String: Date] = [:]
    private var killed: [String: Date] = [:]
    private let begin = Date.now
    private var lastSeenRunning = Date.now
    private let recordStart: Int

    private enum Moment: Hashable {
        case start(String), end(String)
    }

    /// The time limit for a scenario in seconds, longer than the time limit of each SIPp process (`-timeout`).
    private static let limit: TimeInterval = 25
    /// The maximum number of seconds in which steps wait although no program runs.
    private static let patience: TimeInterval = 5

    /// Prepares to play one scenario.
    ///
    /// - Parameters:
    ///   - scenario: the scenario to play.
    ///   - stage: the daemon and the sandbox.
    ///   - scenarioFolder: the folder with the scenario's SIPp files and scripts.
    ///   - folder: the folder for traces and logs.
    ///   - places: the address of each participant.
    init(_ scenario: Scenario, on stage: Stage, scenarioFolder: URL, folder: URL, places: [String: Place]) {
        self.scenario = scenario
        self.stage = stage
        self.scenarioFolder = scenarioFolder
        self.folder = folder
        self.places = places
        recordStart = stage.record.map { Self.text($0).utf8.count } ?? 0
    }

    static let usualToken = "bob-token"

    /// Plays the scenario to its end, and returns the result.
    func play() throws(ReplayError) -> PlayedScenario {
        defer { for child in running.values { child.stop() } }
        var differences: [Difference] = []
        while ended.count < scenario.steps.count {
            for (name, child) in running {
                guard let exit = child.exit else { continue }
                ended[name] = exit
                running[name] = nil
            }
            for step in scenario.steps where started[step.name] == nil && isDue(step.start, .start(step.name)) {
                try start(step)
            }
            endPrograms()
            if let reason = reasonToStop() {
                let missing = scenario.steps.filter { ended[$0.name] == nil }
                differences.append(unfinished(missing, reason))
                break
            }
            Thread.sleep(forTimeInterval: 0.004)
        }
        if differences.isEmpty { Thread.sleep(forTimeInterval: scenario.quiet / .seconds(1)) }
        for step in scenario.steps {
            guard let exit = ended[step.name], exit != step.exit else { continue }
            let reason = why(step)
            differences.append(
                Difference(
                    sentence: "\(step.name) ended with \(exit), expected \(step.exit)" + reason, subject: step.name,
                    name: "exit code", expected: "\(step.exit)", seen: "\(exit)" + reason, places: [.step(step.name)]))
        }
        for step in scenario.steps {
            guard let request = step.request, ended[step.name] == 0,
                let mismatch = request.difference(status: status(of: step), answer: Self.text(file(step, "answer")))
            else { continue }
            differences.append(
                Difference(
                    sentence: "\(step.name) \(mismatch)", subject: step.name, name: mismatch.name,
                    expected: mismatch.expected, seen: mismatch.seen, places: [.step(step.name)]))
        }
        let pushes = pushes()
        if stage.record != nil { differences += PushCheck.differences(of: pushes, expected: scenario.pushes) }
        return played(pushes, differences)
    }

    private func unfinished(_ steps: [ScenarioStep], _ reason: String) -> Difference {
        let names = steps.map(\.name).joined(separator: ", ")
        let reasons = steps.map { why($0) }.joined()
        return Difference(
            sentence: "\(reason): \(names)" + reasons, subject: names, name: "end", expected: "each step ends",
            seen: reason + reasons, places: steps.map { .step($0.name) })
    }

    private func reasonToStop() -> String? {
        // The longest delay before a step's start extends the scenario's time limit.
        let delay = (scenario.steps.map(\.start.delay).max() ?? .zero) / .seconds(1)
        let limit = Self.limit + delay
        if Date.now.timeIntervalSince(begin) > limit { return "not finished in \(Int(limit)) s" }
        if !running.isEmpty { lastSeenRunning = .now }
        return Date.now.timeIntervalSince(lastSeenRunning) > Self.patience + delay ? "never started" : nil
    }

    private func isDue(_ condition: StartCondition, _ moment: Moment) -> Bool {
        guard condition.after.allSatisfy({ ended[$0] != nil }) else { return false }
        if let name = condition.answered, !hasAnswer(name) { return false }
        if let push = condition.push, pushes().count(where: { $0.token == push.token }) < push.nth { return false }
        if let token = condition.hook, !isHooked(token) { return false }
        let since = due[moment, default: .now]
        due[moment] = since
        return Date.now.timeIntervalSince(since) >= condition.delay / .seconds(1)
    }

    /// Whether an actor or a phone has received a 200; for a PBX, whether it runs.
    private func hasAnswer(_ name: String) -> Bool {
        guard let step = scenario.steps.first(where: { $0.name == name }) else { return false }
        if let program = step.program {
            if let says = program.says { return Self.text(file(step, "log")).contains(says) }
            return places[program.place].map { LocalPorts.isServed($0.port) } ?? false
        }
        return trace(of: name).contains { !$0.isSent && $0.label.hasPrefix("200 ") }
    }

    /// Whether the sandbox's hook has run for the push token. If the replay has not started the sandbox, it cannot see
    /// the hook, and looks for the push in the sandbox's file of pushes.
    private func isHooked(_ token: String) -> Bool {
        guard let hooked = stage.hooked else { return pushes().contains { $0.token == token } }
        return Self.text(hooked).split(separator: "\n").contains { $0 == token }
    }

    private func endPrograms() {
        for step in scenario.steps where killed[step.name] == nil {
            guard let program = step.program, let child = running[step.name],
                isDue(program.endsWhen, .end(step.name))
            else { continue }
            switch program.end {
            case .kill: child.kill()
            case .stop: child.terminate()
            }
            killed[step.name] = .now
        }
    }

    private func start(_ step: ScenarioStep) throws(ReplayError) {
        started[step.name] = .now
        let log = file(step, "log")
        switch step.work {
        case .command(let words): running[step.name] = try stage.command(words, log: log)
        case .request(let request):
            running[step.name] = try stage.request(request, step.name, log: log, answer: file(step, "answer"))
        case .play(let actor):
            running[step.name] = try Child(step.name, "sipp", arguments(for: step, actor), log: log)
        case .run(let program):
            running[step.name] = try Child(
                step.name, scenarioFolder.appending(path: program.script).path, [], log: log,
                environment: environment(for: program))
        }
    }

    private func environment(for program: Program) -> [String: String] {
        var given = [
            "target": stage.target, "home": folder.appending(path: "home-\(program.place)").path,
        ]
        given["secure"] = stage.secureTarget
        given["web"] = stage.webTarget
        given["authority"] = stage.authority
        given["sandbox"] = stage.sandbox
        if program.role == .pbx { given["address"] = places[program.place]?.description }
        let own = program.keys.mapValues { value in
            places.reduce(value) { $0.replacing("%\($1.key)%", with: $1.value.description) }
        }
        let all = keys(own).merging(given) { $1 }
        let prefix = program.role.rawValue.uppercased() + "_"
        return Dictionary(uniqueKeysWithValues: all.map { (prefix + $0.key.uppercased(), $0.value) })
    }

    /// The keys for a SIPp file or script: a step's own keys, and the usual keys of all steps. A step's own key
    /// replaces the usual key of the same name.
    private func keys(_ own: [String: String]) -> [String: String] {
        let usual = [
            "user": stage.user, "domain": stage.domain, "caller": "103", "provider": "fcm", "param": "proj",
            "token": Self.usualToken, "expires": "3600",
        ]
        return usual.merging(own) { $1 }.mapValues { value in
            guard value.contains("%") else { return value }
            return stage.fillings.reduce(value) { $0.replacing("%\($1.key)%", with: $1.value) }
        }
    }

    private func arguments(for step: ScenarioStep, _ actor: Actor) -> [String] {
        let keys = keys(actor.keys).sorted { $0.key < $1.key }
        let place = places[actor.place] ?? Place(port: 0)
        return [
            actor.peer.flatMap { places[$0]?.description } ?? stage.target, "-sf",
            scenarioFolder.appending(path: actor.file).path, "-t", actor.transport.mode,
            "-i", place.address, "-p", String(place.port), "-m", "1", "-cid_str", "call", "-auth_uri",
            stage.domain, "-nostdin",
            "-timeout", "20s", "-timeout_error", "-trace_msg", "-message_file", file(step, "messages").path,
            "-message_overwrite", "false", "-trace_err", "-error_file", file(step, "errors").path,
            "-error_overwrite", "false",
        ] + keys.flatMap { ["-key", $0.key, $0.value] }
    }
}

// MARK: Events

extension Performance {
    private func pushes() -> [PushRecord] {
        guard let record = stage.record else { return [] }
        return Self.text(record).utf8.dropFirst(recordStart).split(separator: UInt8(ascii: "\n"))
            .compactMap { PushRecord(line: String(decoding: $0, as: UTF8.self)) }
    }

    private func trace(of name: String) -> [TracedMessage] {
        guard let step = scenario.steps.first(where: { $0.name == name }), step.actor != nil else { return [] }
        return MessageTrace.messages(in: Self.text(file(step, "messages")))
    }

    /// The scenario with its events, in columns for phones, daemon, PBXs and the push provider.
    private func played(_ pushes: [PushRecord], _ differences: [Difference]) -> PlayedScenario {
        func places(_ role: Actor.Role) -> [String] {
            scenario.steps.filter { $0.role == role }.compactMap(\.place).reduce(into: []) { places, place in
                if !places.contains(place) { places.append(place) }
            }
        }
        var played = PlayedScenario(
            name: scenario.name, about: scenario.about, result: differences.isEmpty ? .passed : .failed)
        played.columns = places(.phone) + ["sippushd"] + places(.pbx) + (pushes.isEmpty ? [] : ["push"])
        played.events = events(pushes)
        played.differences = differences
        played.tokens = scenario.tokens(of: pushes)
        played.secrets = scenario.secrets + stage.secrets
        return played
    }

    private func events(_ pushes: [PushRecord]) -> [PlayedEvent] {
        let actors = scenario.steps.compactMap { step in step.actor.map { (name: step.name, actor: $0) } }
        let traces = actors.map { trace(of: $0.name) }.straightened
        var events: [PlayedEvent] = []
        for ((name, actor), trace) in zip(actors, traces) {
            let (place, peer) = (actor.place, actor.peer ?? "sippushd")
            events += trace.map { message in
                let (from, to) = message.isSent ? (place, peer) : (peer, place)
                return PlayedEvent(
                    line: Ladder.Event(time: message.time, from: from, to: to, label: message.label),
                    content: .message(message.text), place: .step(name))
            }
        }
        for step in scenario.steps {
            switch step.work {
            case .play: break
            case .command(let words):
                events += remark(words.joined(separator: " "), of: "sippushd", at: started[step.name], step)
            case .request(let request):
                events += remark(
                    "\(request.method) \(request.target.prefix { $0 != "?" }): \(status(of: step))", of: "sippushd",
                    at: started[step.name], step,
                    .request(request, sent: stage.sent(request), answer: Self.text(file(step, "answer"))))
            case .run(let program):
                events += remark(
                    "\(program.needs ?? program.script) starts", of: program.place, at: started[step.name], step)
                let end = program.end == .kill ? "is killed" : "is stopped"
                events += remark(end, of: program.place, at: killed[step.name], step)
            }
        }
        events += pushes.enumerated().map { index, push in
            // One millisecond is added, because the sandbox rounds times down to milliseconds.
            PlayedEvent(
                line: Ladder.Event(
                    time: push.time + 1, from: "sippushd", to: "push", label: push.label(token: push.token)),
                content: .push(push), place: .push(index))
        }
        return events
    }

    /// The HTTP status of the answer to a request; 0 for no answer.
    private func status(of request: ScenarioStep) -> Int { Int(Self.text(file(request, "log")).suffix(3)) ?? 0 }

    private func remark(
        _ label: String, of place: String, at time: Date?, _ step: ScenarioStep,
        _ content: PlayedEvent.Content = .remark
    ) -> [PlayedEvent] {
        guard let time else { return [] }
        let line = Ladder.Event(time: time.timeIntervalSince1970 * 1000, from: place, to: nil, label: label)
        return [PlayedEvent(line: line, content: content, place: .step(step.name))]
    }

    /// Why a step failed: the first errors of a SIPp process, or the last lines of a program's output.
    private func why(_ step: ScenarioStep) -> String {
        let file = step.actor == nil ? file(step, "log") : file(step, "errors")
        let lines = Self.text(file).split(whereSeparator: \.isNewline)
        return (step.program == nil ? lines.prefix(3) : lines.suffix(6)).map { "\n      \($0)" }.joined()
    }

    private func file(_ step: ScenarioStep, _ ending: String) -> URL {
        folder.appending(path: String(step.name.map { $0.isLetter || $0.isNumber ? $0 : "-" }) + "." + ending)
    }

    private static func text(_ file: URL) -> String {
        (try? Data(contentsOf: file)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
