import PushDelivery

/// Explains one call in words: the steps of all its devices in order of time, and advice for each failure.
struct CallExplanation {
    /// A timeline record, and its index among the records of the report.
    typealias Entry = (place: Int, record: TimelineReport)

    private let entries: [Entry]
    private let report: ExplainReport

    /// Prepares the explanation of the call that the timeline records describe. The list of the call's timeline records
    /// must not be empty.
    init(_ entries: [Entry], of report: ExplainReport) {
        self.entries = entries
        self.report = report
    }

    var lines: [String] {
        guard let heading else { return [] }
        let lines = steps.map { "  " + "\($0.time) ms".padded(to: 9) + $0.text }
        let trace = entries.first?.record.traceID.map { ["  trace    " + $0] } ?? []
        return [heading] + trace + lines + advice.map { "  => " + $0 }
    }

    /// The heading, and each step with the index of its record. The last step of a timeline record has the record's
    /// advice.
    var words: [ExplainReport.Words.Line] {
        var lines = [ExplainReport.Words.Line(text: heading ?? "")]
        lines += steps.map { ExplainReport.Words.Line(record: $0.place, text: "\($0.time) ms: \($0.text)") }
        for sentence in advice {
            let entry = entries.first { explanation(of: $0.record).advice == sentence }
            let last = lines.lastIndex { $0.record == entry?.place } ?? lines.count - 1
            lines[last].advice = sentence
        }
        return lines
    }

    /// The last step of the phone that decided the call.
    var verdict: String {
        let ends: [TimelineRecord.End] = [.answered, .forwarded, .refused]
        let decisive = ends.lazy.compactMap { end in entries.last { $0.record.end == end.rawValue } }.first
        return (decisive ?? entries.last).flatMap { explanation(of: $0.record).steps.last?.text } ?? ""
    }

    /// Advice for each failure, without repetitions.
    var advice: [String] {
        var advice: [String] = []
        for entry in entries {
            if let sentence = explanation(of: entry.record).advice, !advice.contains(sentence) {
                advice.append(sentence)
            }
        }
        return advice
    }

    private var start: Int64 { entries.map(\.record.requestedAt.milliseconds).min() ?? 0 }

    /// The steps of all devices in the order of their times.
    private var steps: [(place: Int, time: Int64, text: String)] {
        var steps: [(place: Int, time: Int64, text: String)] = []
        for (place, record) in entries {
            // The first step of a call needs no label, because its text names the device.
            let label = entries.count > 1 ? "device \(record.deviceName ?? ""): " : ""
            steps += explanation(of: record).steps.enumerated().map { index, step in
                (place, record.requestedAt.milliseconds - start + step.time, (index == 0 ? "" : label) + step.text)
            }
        }
        // Steps with the same time keep their order.
        return steps.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
            .map(\.element)
    }

    private func explanation(of record: TimelineReport) -> DeviceExplanation {
        let contact = report.contacts.first { $0.device == record.device }
        return DeviceExplanation(record, lastRegistered: contact?.registeredAt.milliseconds)
    }

    private var heading: String? {
        guard let first = entries.first?.record else { return nil }
        if first.kind == "notification" {
            // The operator tested a token that belongs to no known device.
            if first.aor == "@" { return "Test push \(first.code ?? "") to a token, \(Words.date(start))" }
            return "Notification \(first.code ?? "") for \(first.aor), \(Words.date(start))"
        }
        if first.refusal != nil, let source = first.source.isEmpty ? nil : first.source {
            let what = first.kind == "register" ? "REGISTER" : "Call \(first.callID)"
            return "\(what) for \(first.aor) from \(source), \(Words.date(start))"
        }
        if first.kind == "outgoing" {
            return "Call \(first.callID) of \(first.aor) to \(first.peer), \(Words.date(start))"
        }
        if first.kind == "contact" { return "Contact of \(first.aor), \(Words.date(start))" }
        guard first.kind == "call" else { return "Missed calls for \(first.aor), \(Words.date(start))" }
        let user = report.isUser ? "" : " for \(first.aor)"
        return "Call \(first.callID)\(user), \(Words.date(start))"
    }
}
