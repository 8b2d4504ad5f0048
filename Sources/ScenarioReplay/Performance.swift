import Foundation

/// One flow being played: starts what is due, looks at what has ended.
final class Performance {
    private let flow: Flow
    private let stage: Stage
    private let flowFolder: URL
    private let folder: URL
    private let places: [String: Int]
    private var running: [String: Child] = [:]
    private var ended: [String: Int] = [:]
    /// When a step's conditions first held, and when it was started.
    private var due: [String: Date] = [:]
    private var started: [String: Date] = [:]
    private let begin = Date.now
    private var lastSeenRunning = Date.now
    private let recordStart: Int

    /// Longer than any actor may take; see `-timeout`.
    private static let limit: TimeInterval = 25
    /// How long nothing may run while steps wait for their start.
    private static let patience: TimeInterval = 5

    /// - Parameters:
    ///   - flow: what to play.
    ///   - stage: where.
    ///   - flowFolder: where the flow's SIPp files are.
    ///   - folder: receives traces.
    ///   - places: each place's local port.
    init(_ flow: Flow, on stage: Stage, flowFolder: URL, folder: URL, places: [String: Int]) {
        self.flow = flow
        self.stage = stage
        self.flowFolder = flowFolder
        self.folder = folder
        self.places = places
        recordStart = stage.record.map { Self.text($0).utf8.count } ?? 0
    }

    /// What went wrong, and what happened.
    struct Outcome {
        var complaints: [String] = []
        var ladder: [String] = []
    }

    /// Plays the flow to its end.
    func play() throws(ReplayError) -> Outcome {
        defer { for child in running.values { child.stop() } }
        var outcome = Outcome()
        while ended.count < flow.steps.count {
            for (name, child) in running {
                guard let exit = child.exit else { continue }
                ended[name] = exit
                running[name] = nil
            }
            for step in flow.steps where started[step.name] == nil && isDue(step) { try start(step) }
            if let reason = reasonToStop() {
                let missing = flow.steps.map(\.name).filter { ended[$0] == nil }
                outcome.complaints.append("\(reason): \(missing.joined(separator: ", "))")
                break
            }
            Thread.sleep(forTimeInterval: 0.004)
        }
        if outcome.complaints.isEmpty { Thread.sleep(forTimeInterval: flow.quiet / .seconds(1)) }
        for step in flow.steps {
            guard let exit = ended[step.name], exit != step.exit else { continue }
            outcome.complaints.append("\(step.name) ended with \(exit), expected \(step.exit)" + why(step))
        }
        if stage.record != nil {
            outcome.complaints += PushCheck.complaints(about: pushes(), expected: flow.pushes)
        }
        outcome.ladder = ladder()
        return outcome
    }

    private func reasonToStop() -> String? {
        if Date.now.timeIntervalSince(begin) > Self.limit { return "not finished in \(Int(Self.limit)) s" }
        if !running.isEmpty { lastSeenRunning = .now }
        return Date.now.timeIntervalSince(lastSeenRunning) > Self.patience ? "never started" : nil
    }

    private func isDue(_ step: FlowStep) -> Bool {
        let start = step.start
        guard start.after.allSatisfy({ ended[$0] != nil }) else { return false }
        if let name = start.answered, !trace(of: name).contains(where: { !$0.isSent && $0.label.hasPrefix("200 ") }) {
            return false
        }
        if let push = start.push, pushes().count(where: { $0.token == push.token }) < push.nth { return false }
        let since = due[step.name, default: .now]
        due[step.name] = since
        return Date.now.timeIntervalSince(since) >= start.delay / .seconds(1)
    }

    private func start(_ step: FlowStep) throws(ReplayError) {
        started[step.name] = .now
        let log = file(step, "log")
        switch step.work {
        case .command(let words): running[step.name] = try stage.command(words, log: log)
        case .play(let actor):
            running[step.name] = try Child(step.name, "sipp", arguments(for: step, actor), log: log)
        }
    }

    private func arguments(for step: FlowStep, _ actor: Actor) -> [String] {
        let defaults = [
            "user": stage.user, "domain": stage.domain, "caller": "103", "provider": "fcm", "param": "proj",
            "token": "bob-token",
            "expires": "3600",
        ]
        let keys = defaults.merging(actor.keys) { $1 }.sorted { $0.key < $1.key }
        return [
            stage.target, "-sf", flowFolder.appending(path: actor.file).path, "-t", actor.transport.mode,
            "-i", "127.0.0.1", "-p", String(places[actor.place] ?? 0), "-m", "1", "-cid_str", "call", "-auth_uri",
            stage.domain, "-nostdin",
            "-timeout", "20s", "-timeout_error", "-trace_msg", "-message_file", file(step, "messages").path,
            "-message_overwrite", "false", "-trace_err", "-error_file", file(step, "errors").path,
            "-error_overwrite", "false",
        ] + keys.flatMap { ["-key", $0.key, $0.value] }
    }
}

// MARK: What happened

extension Performance {
    private func pushes() -> [PushRecord] {
        guard let record = stage.record else { return [] }
        return Self.text(record).utf8.dropFirst(recordStart).split(separator: UInt8(ascii: "\n"))
            .compactMap { PushRecord(line: String(decoding: $0, as: UTF8.self)) }
    }

    private func trace(of name: String) -> [TracedMessage] {
        guard let step = flow.steps.first(where: { $0.name == name }), step.actor != nil else { return [] }
        return MessageTrace.messages(in: Self.text(file(step, "messages")))
    }

    private func ladder() -> [String] {
        let actors = flow.steps.compactMap { step in step.actor.map { (name: step.name, actor: $0) } }
        let traces = actors.map { trace(of: $0.name) }.straightened
        var events: [Ladder.Event] = []
        for (place, trace) in zip(actors.map(\.actor.place), traces) {
            events += trace.map { message in
                let (from, to) = message.isSent ? (place, "sippushd") : ("sippushd", place)
                return Ladder.Event(time: message.time, from: from, to: to, label: message.label)
            }
        }
        for step in flow.steps {
            guard case .command(let words) = step.work, let time = started[step.name] else { continue }
            let milliseconds = time.timeIntervalSince1970 * 1000
            events.append(
                Ladder.Event(time: milliseconds, from: "sippushd", to: nil, label: words.joined(separator: " ")))
        }
        let pushes = pushes()
        events += pushes.map { push in
            let refused = push.status == 0 || push.status == 200 ? "" : ": \(push.status)"
            // The record's milliseconds are cut, not rounded.
            return Ladder.Event(
                time: push.time + 1, from: "sippushd", to: "push", label: "\(push.type) to \(push.token)\(refused)")
        }
        func places(_ role: Actor.Role) -> [String] {
            actors.map(\.actor).filter { $0.role == role }.map(\.place).reduce(into: []) { places, place in
                if !places.contains(place) { places.append(place) }
            }
        }
        let columns = places(.phone) + ["sippushd"] + places(.pbx) + (pushes.isEmpty ? [] : ["push"])
        return Ladder(columns: columns).draw(events)
    }

    /// The first error an actor noted, or the last words of a command.
    private func why(_ step: FlowStep) -> String {
        let file = step.actor == nil ? file(step, "log") : file(step, "errors")
        let lines = Self.text(file).split(whereSeparator: \.isNewline).prefix(3)
        return lines.map { "\n      \($0)" }.joined()
    }

    private func file(_ step: FlowStep, _ ending: String) -> URL {
        folder.appending(path: step.name.replacing(" ", with: "-").replacing("/", with: "-") + "." + ending)
    }

    private static func text(_ file: URL) -> String {
        (try? Data(contentsOf: file)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
