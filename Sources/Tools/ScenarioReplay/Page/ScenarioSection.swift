/// One scenario on the page: differences from the expected course, the ladder diagram, and the messages' texts.
struct ScenarioSection {
    let html: String

    /// - Parameters:
    ///   - scenario: the scenario with its result.
    ///   - number: the scenario's number on the page.
    ///   - room: the number of messages and bytes that the page may still show.
    init(_ scenario: PlayedScenario, number: Int, _ room: inout ReplayPage.Room) {
        var writer = SectionWriter(scenario, number)
        html = writer.write(&room)
    }

    static func state(_ result: PlayedScenario.Result) -> String {
        switch result {
        case .passed: "<span class=\"state passed\">passed</span>"
        case .failed: "<span class=\"state failed\">FAILED</span>"
        case .skipped(let reason): "skipped: \(HTMLText.isolated(reason))"
        }
    }
}

private struct SectionWriter {
    let scenario: PlayedScenario
    let number: Int
    let mask: PageMask
    /// The events in the order of the ladder diagram.
    let events: [PlayedEvent]
    /// The index of the event that shows a part of the scenario; for a step, of the step's last event.
    var marks: [Difference.Place: Int] = [:]

    init(_ scenario: PlayedScenario, _ number: Int) {
        self.scenario = scenario
        self.number = number
        mask = PageMask(tokens: scenario.tokens, secrets: scenario.secrets)
        let columns = Set(scenario.columns)
        events = Ladder.inOrder(scenario.events, \.line.time)
            .filter { columns.contains($0.line.from) && ($0.line.to.map { columns.contains($0) } ?? true) }
            .filter { $0.line.to != $0.line.from }
    }

    mutating func write(_ room: inout ReplayPage.Room) -> String {
        let limits = room.limits
        let shown = Array(events.prefix(max(room.events, 0)))
        room.events -= shown.count
        for (index, event) in shown.enumerated() { marks[event.place] = index }
        var out = [
            "<section id=\"s\(number)\">\n<h2>\(HTMLText.isolated(label(scenario.name)))</h2>\n",
            "<p>\(HTMLText.isolated(label(scenario.about)))</p>\n<p>\(ScenarioSection.state(scenario.result))</p>\n",
            differences(limits), tokens(limits),
        ]
        if shown.count < events.count {
            out.append(
                "<p>The page shows the first \(shown.count) of \(events.count) messages, because it has room for "
                    + "\(limits.events).</p>\n")
        }
        if !shown.isEmpty { out += [picture(shown), texts(shown, &room)] }
        if !scenario.lastWords.isEmpty {
            let words = scenario.lastWords.joined(separator: "\n")
            out.append("<details><summary>Last lines of sandbox and daemon</summary>\n")
            out.append(block(mask.plain(words), &room) + "</details>\n")
        }
        return out.joined() + "</section>\n"
    }

    private func label(_ text: String) -> String { HTMLText.cut(mask.label(text), to: 1000).text }

    // MARK: Differences

    private func differences(_ limits: ReplayPage.Limits) -> String {
        let all = scenario.differences
        guard !all.isEmpty else { return "" }
        let items = all.prefix(limits.differences).map { difference in
            let subject = difference.subject + (difference.token.map { " " + mask.name(of: $0) } ?? "")
            let links = difference.places.compactMap { marks[$0] }.map { index in
                " <a href=\"#m\(number)-\(index)\">at \(milliseconds(events[index])) ms</a>"
            }
            return "<li><b>\(HTMLText.isolated(label("\(subject): \(difference.name)")))</b>"
                + links.prefix(20).joined(separator: ",")
                + "<dl><dt>expected</dt><dd>\(value(difference.expected, difference))</dd>"
                + "<dt>seen</dt><dd>\(value(difference.seen, difference))</dd></dl></li>\n"
        }
        var out = "<h3>Differences</h3>\n<ul class=\"differences\">\n\(items.joined())</ul>\n"
        if all.count > items.count {
            out += "<p>The list shows the first \(items.count) of \(all.count) differences.</p>\n"
        }
        return out
    }

    private func value(_ text: String, _ difference: Difference) -> String {
        let (text, isCut) = HTMLText.cut(mask.value(text, of: difference.name), to: 2000)
        return HTMLText.isolated(text) + (isCut ? " <span class=\"soft\">(cut)</span>" : "")
    }

    private func tokens(_ limits: ReplayPage.Limits) -> String {
        guard !mask.legend.isEmpty else { return "" }
        let words = mask.legend.prefix(limits.tokens).map { entry in
            entry.name + (entry.owner.map { " of \(HTMLText.isolated(label($0)))" } ?? "")
                + ": \(HTMLText.isolated(entry.redacted))"
        }
        let more = mask.legend.count > words.count ? ", and \(mask.legend.count - words.count) others" : ""
        return "<p class=\"soft\">Push tokens, with their lengths: \(words.joined(separator: ", "))\(more).</p>\n"
    }

    // MARK: Messages

    private func milliseconds(_ event: PlayedEvent) -> String {
        let start = events.first?.line.time ?? 0
        return Int(exactly: (event.line.time - start).rounded()).map { "\($0)" } ?? "?"
    }

    private func picture(_ shown: [PlayedEvent]) -> String {
        let places = Dictionary(zip(scenario.columns, scenario.columns.indices)) { first, _ in first }
        let different = Set(scenario.differences.flatMap(\.places).compactMap { marks[$0] })
        let rows = shown.enumerated().map { index, event in
            LadderPicture.Row(
                milliseconds: milliseconds(event), from: places[event.line.from] ?? 0,
                to: event.line.to.flatMap { places[$0] }, label: label(event),
                name: name(event) + (different.contains(index) ? ", differs" : ""), isPush: event.isPush,
                isDifferent: different.contains(index), hasText: event.content != .remark)
        }
        return LadderPicture(number: number, columns: scenario.columns.map { label($0) }, rows: rows).html
    }

    private func label(_ event: PlayedEvent) -> String {
        guard case .push(let push) = event.content else { return label(event.line.label) }
        return label(push.label(token: mask.name(of: push.token)))
    }

    private func name(_ event: PlayedEvent) -> String {
        let way = event.line.to.map { "\(label(event.line.from)) → \(label($0))" } ?? label(event.line.from)
        return "\(milliseconds(event)) ms, \(way): \(label(event))"
    }

    private func texts(_ shown: [PlayedEvent], _ room: inout ReplayPage.Room) -> String {
        var out = ["<details><summary>Texts of the messages</summary>\n"]
        for (index, event) in shown.enumerated() {
            let text: String
            switch event.content {
            case .message(let message): text = mask.message(message)
            case .push(let push): text = mask.json(push.record)
            case .request(let request, let sent, let answer): text = self.text(request, sent, answer)
            case .remark: continue
            }
            out.append("<details><summary>\(HTMLText.isolated(name(event)))</summary>")
            out.append("<div id=\"t\(number)-\(index)\">\(block(text, &room))</div></details>\n")
        }
        return out.joined() + "</details>\n"
    }

    private func text(_ request: APIRequest, _ sent: String, _ answer: String) -> String {
        let parts = sent.split(separator: "\n\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let fields = request.fields.sorted { $0.key < $1.key }.map {
            "\n\($0.key): \(mask.value($0.value, of: $0.key))"
        }
        let body = parts.dropFirst().first.map { "\n\n" + mask.body($0) } ?? ""
        let head = mask.plain(parts.first ?? "") + fields.joined()
        return head + body + (answer.isEmpty ? "" : "\n\nAnswer:\n" + mask.body(answer))
    }

    private func block(_ text: String, _ room: inout ReplayPage.Room) -> String {
        let limit = min(room.limits.text, room.texts)
        let (shown, isCut) = HTMLText.cut(text, to: max(limit, 0))
        room.texts -= shown.utf8.count
        let note = isCut ? "<p class=\"soft\">The text is cut after \(shown.utf8.count) bytes.</p>" : ""
        return HTMLText.block(shown) + note
    }
}

extension PlayedEvent {
    fileprivate var isPush: Bool {
        if case .push = content { true } else { false }
    }
}
