import Foundation
import Settings

/// Plays the scenarios one after the other, and prints the results.
package struct Replay {
    private let options: ReplayOptions
    private let scenarios: URL
    private let programs: URL

    /// Prepares to play scenarios.
    ///
    /// - Parameters:
    ///   - options: the scenarios to play, and the daemon with which they are played.
    ///   - program: the path of `scenario-replay`, whose folder has `sippushd` and `push-sandbox` unless the options
    ///     name another.
    package init(_ options: ReplayOptions, program: String) {
        self.options = options
        scenarios = URL(filePath: options.scenarios)
        programs = options.programs.map { URL(filePath: $0) } ?? URL(filePath: program).deletingLastPathComponent()
    }

    /// Plays the selected scenarios, and prints a ladder diagram for each scenario. With the option `--html`, one page
    /// gets the ladder diagrams of all scenarios.
    ///
    /// - Returns: whether all scenarios have passed.
    /// - Throws: ``ReplayError`` if a scenario does not exist or cannot be read, or the page cannot be written.
    package func run() throws(ReplayError) -> Bool {
        let scenarios = try readScenarios()
        if options.isListOnly {
            for scenario in scenarios { say("\(scenario.name): \(scenario.about)") }
            return true
        }
        if let page = options.page { try ReplayPage.check(page) }
        var played: [PlayedScenario] = []
        for scenario in scenarios {
            say("\n\(scenario.name): \(scenario.about)")
            if let reason = reasonToSkip(scenario) {
                say("  skipped: \(reason)")
                played.append(
                    PlayedScenario(name: scenario.name, about: scenario.about, result: .skipped(reason)))
            } else {
                played.append(play(scenario))
            }
        }
        let summary = ReplaySummary(played)
        if !summary.failed.isEmpty { say("\nfailed: \(summary.failed.joined(separator: ", "))") }
        if let page = options.page {
            try ReplayPage(played).write(to: page)
            say("\npage: \(page)")
        }
        say("\n\(summary)")
        return summary.failed.isEmpty
    }

    private func play(_ scenario: Scenario) -> PlayedScenario {
        var played = PlayedScenario(name: scenario.name, about: scenario.about, result: .failed)
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "scenario-\(scenario.name)-\(UUID().uuidString.prefix(8))")
        do throws(ReplayError) {
            try create(folder)
            // The ports are released at the end of the scenario, for the next scenario.
            var ports = LocalPorts()
            let places = try places(of: scenario, &ports)
            let stage =
                if let target = options.target {
                    Stage(target: target, programs: programs, folder: folder)
                } else {
                    try Stage(for: scenario, programs: programs, folder: folder, places: places, ports: &ports)
                }
            defer { stage.stop() }
            let scenarioFolder = scenarios.appending(path: scenario.name)
            played = try Performance(
                scenario, on: stage, scenarioFolder: scenarioFolder, folder: folder, places: places
            )
            .play()
            let ladder = Ladder(columns: played.columns).draw(played.events.map(\.line))
            for line in ladder { say("  " + line) }
            if played.differences.isEmpty {
                say("  passed")
                try? FileManager.default.removeItem(at: folder)
                return played
            }
            for difference in played.differences { say("    - " + difference.sentence) }
            played.lastWords = stage.lastWords
            for words in played.lastWords { say(words) }
        } catch {
            say("    - \(error)")
            played.secrets += scenario.secrets + (options.target?.apiKey.map { [$0] } ?? [])
            played.tokens = scenario.tokens(of: [])
            played.differences.append(
                Difference(
                    sentence: "\(error)", subject: scenario.name, name: "start", expected: "the scenario is played",
                    seen: "\(error)"))
        }
        say("  FAILED, see \(folder.path)")
        return played
    }

    /// The address of each participant of the scenario. An IP address that a step sets for its participant applies to
    /// the whole scenario.
    private func places(
        of scenario: Scenario, _ ports: inout LocalPorts
    ) throws(ReplayError) -> [String: Place] {
        var places: [String: Place] = [:]
        var pbxPort = options.target?.pbxPort
        for step in scenario.steps {
            guard let name = step.place else { continue }
            if places[name] == nil {
                let isTrusted = step.role == .pbx && pbxPort != nil
                if isTrusted, let pbxPort {
                    places[name] = Place(port: pbxPort)
                } else {
                    places[name] = Place(port: try ports.take())
                }
                if isTrusted { pbxPort = nil }
            }
            if let address = step.address { places[name]?.address = address }
        }
        return places
    }

    /// Why the scenario cannot be played on this machine or with the running daemon; `nil` if it can.
    func reasonToSkip(_ scenario: Scenario) -> String? {
        let missing = scenario.steps.compactMap(\.program?.needs).first { !Child.isInstalled($0) }
        if let missing { return "\(missing) is not installed" }
        guard let target = options.target else { return nil }
        if !scenario.daemon.isNull { return "it needs its own daemon settings" }
        if !scenario.tokens.isEmpty || !scenario.subscriptions.isEmpty { return "it needs its own push sandbox" }
        if !scenario.users.isEmpty { return "it needs its own users" }
        if target.record == nil, !scenario.pushes.isEmpty { return "it needs --record to see pushes" }
        if target.configuration == nil, scenario.steps.contains(where: \.isCommand) { return "it needs --config" }
        let requests = scenario.steps.compactMap(\.request)
        if target.api == nil, !requests.isEmpty { return "it needs --api" }
        if target.apiKey == nil, requests.contains(where: { $0.scopes != nil }) { return "it needs --api-key" }
        if scenario.steps.contains(where: { $0.program?.role == .pbx }) { return "it needs to be its upstream" }
        if Set(scenario.steps.filter { $0.role == .pbx }.compactMap(\.place)).count > 1 {
            return "it needs two trusted ports"
        }
        return nil
    }

    private func readScenarios() throws(ReplayError) -> [Scenario] {
        var names = options.names
        if names.isEmpty {
            let all = (try? FileManager.default.contentsOfDirectory(atPath: scenarios.path)) ?? []
            names = all.filter { FileManager.default.fileExists(atPath: file($0).path) }.sorted()
        }
        guard !names.isEmpty else { throw ReplayError("no scenarios in \(scenarios.path)") }
        var read: [Scenario] = []
        for name in names {
            guard let bytes = try? Data(contentsOf: file(name)) else {
                throw ReplayError("no scenario is called \(name): cannot read \(file(name).path)")
            }
            do throws(SettingsError) {
                read.append(try Scenario.read(Array(bytes), name: name, file: "\(name)/flow.yaml"))
            } catch {
                throw ReplayError("\(error)")
            }
        }
        return read
    }

    private func file(_ name: String) -> URL { scenarios.appending(path: name).appending(path: "flow.yaml") }

    /// Prints a line without a buffer, even to a pipe.
    private func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    private func create(_ folder: URL) throws(ReplayError) {
        do {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        } catch { throw ReplayError("cannot make \(folder.path): \(error.localizedDescription)") }
    }
}

/// The numbers of passed, failed and skipped scenarios, printed as the last line of the output.
struct ReplaySummary: CustomStringConvertible {
    private(set) var passed = 0
    private(set) var failed: [String] = []
    private(set) var skipped = 0

    init(_ played: [PlayedScenario]) {
        for scenario in played {
            switch scenario.result {
            case .passed: passed += 1
            case .failed: failed.append(scenario.name)
            case .skipped: skipped += 1
            }
        }
    }

    var description: String {
        "\(passed) passed, \(failed.count) failed" + (skipped > 0 ? ", \(skipped) skipped" : "")
    }
}
