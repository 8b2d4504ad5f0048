import HTTPServices
import Timekeeping

/// Explains a report in words: the user's devices, the steps of each call, and advice for each failure.
package struct Explanation {
    private let report: ExplainReport

    package init(_ report: ExplainReport) { self.report = report }

    /// The lines that `sippushd explain` prints.
    package var lines: [String] {
        guard !report.isEmpty else { return trouble + [nobody] }
        var lines = trouble + (report.isUser ? pbx + user : [])
        for call in calls {
            if !lines.isEmpty { lines.append("") }
            lines += CallExplanation(call, of: report).lines
        }
        if report.records.isEmpty { lines.append(nothing) }
        return lines
    }

    /// The explanation for programs: each step with its record, and the newest call in one sentence.
    package var words: ExplainReport.Words {
        guard !report.isEmpty else {
            return ExplainReport.Words(Self.paired(trouble + [nobody]), Self.sentence(nobody), "")
        }
        let facts = Self.paired(trouble + (report.isUser ? pbx + user : []))
        let calls = calls.map { CallExplanation($0, of: report) }
        let general = facts.first { !$0.advice.isEmpty }?.advice ?? ""
        guard let newest = calls.last else {
            let verdict = report.isUser ? (user.first ?? nothing) : nothing
            let lines = facts + [ExplainReport.Words.Line(text: nothing)]
            return ExplainReport.Words(lines, Self.sentence(verdict), general)
        }
        return ExplainReport.Words(
            facts + calls.flatMap(\.words), Self.sentence(newest.verdict), newest.advice.first ?? general)
    }

    /// Joins each line of advice with the line before.
    private static func paired(_ lines: [String]) -> [ExplainReport.Words.Line] {
        var paired: [ExplainReport.Words.Line] = []
        for line in lines {
            let text = String(line.drop { $0 == " " })
            if text.hasPrefix("=> "), !paired.isEmpty {
                paired[paired.count - 1].advice = String(text.dropFirst(3))
            } else {
                paired.append(ExplainReport.Words.Line(text: text))
            }
        }
        return paired
    }

    private static func sentence(_ text: String) -> String {
        text.prefix(1).uppercased() + text.dropFirst() + (text.hasSuffix(".") ? "" : ".")
    }

    /// The reasons why the report may lack records and calls.
    private var trouble: [String] { storeTrouble + nodeTrouble }

    private var nodeTrouble: [String] {
        (report.missingNodes ?? []).flatMap { missing in
            [
                "Node \(missing.node) did not answer: \(missing.reason)",
                "  => Calls that are active at \(missing.node) are missing here. Ask that node, and look at its log.",
            ]
        }
    }

    private var storeTrouble: [String] {
        guard let failure = report.storeFailure else { return [] }
        return [
            "Now \(failure)",
            "  => Until then new phones and users get 503, and calls leave no record here. sippushd doctor says more.",
        ]
    }

    // MARK: The user

    /// The reasons why no call of the PBX can reach the user.
    private var pbx: [String] {
        guard let pbx = report.pbx, let reason = pbx.reason else { return [] }
        let advice = pbx.advice.map { ["  => \($0)"] } ?? []
        return ["not known at the PBX since \(Words.second(pbx.since)): \(reason)"] + advice
    }

    private var user: [String] {
        var lines = [report.contacts.isEmpty ? noDevice : deviceCount]
        lines += report.contacts.map { "  " + contact($0) }
        lines += rules
        let off = report.providers.filter { !$0.isEnabled }.map(\.name)
        lines += off.map { "Provider \($0) is switched off: sippushd provider enable \($0)" }
        let paused = report.providers.filter(\.isPaused).map(\.name)
        lines += paused.map { "Provider \($0) is paused: sippushd provider resume \($0)" }
        if report.providers.isEmpty { lines.append("No push provider is configured: see push.apns and push.fcm.") }
        for call in report.held {
            let places = [
                ("asleep", call.sleepingDevices), ("called", call.ringingDevices), ("later", call.laterDevices),
            ]
            .filter { !$0.1.isEmpty }.map { "\($0.1.joined(separator: ", ")) \($0.0)" }
            let node = call.node.map { " at node \($0)" } ?? ""
            lines.append((["Call \(call.callID) is active\(node)"] + places).joined(separator: "; "))
        }
        if report.missedCalls > 0 {
            lines.append(
                "\(Words.count(report.missedCalls, "missed call")) not reported yet: "
                    + "sippushd bucket show \(report.name)")
        }
        if report.messages > 0 {
            lines.append(
                "\(Words.count(report.messages, "message")) for the user's phones: sippushd message list \(report.name)"
            )
        }
        return lines
    }

    /// The user's rules for calls.
    private var rules: [String] {
        guard let rules = report.rules else { return [] }
        var lines = rules.lines.map { "Rule: \($0)" }
        if rules.doNotDisturb != nil {
            let now = report.silence.map { "no device rings now (\($0))" } ?? "devices ring now"
            lines.append("  \(now): sippushd user rules \(report.name)")
        }
        return lines
    }

    private var deviceCount: String { "\(report.name) has \(Words.count(report.contacts.count, "device"))" }

    private var noDevice: String {
        report.isKnown
            ? "\(report.name) has no device: the phone signed out, never registered, or its push token died"
            : "\(report.name) has neither a device nor a password here"
    }

    private func contact(_ contact: ExplainReport.ContactReport) -> String {
        var kind = contact.token.map { "push token \($0)" } ?? "no push parameters"
        if let provider = contact.switchedOff {
            kind = "not pushed: provider \(provider) is switched off"
        } else if let provider = contact.paused {
            kind = "not pushed: provider \(provider) is paused"
        } else if contact.token == nil, contact.hasPushParameters {
            kind = "the daemon does not use its push parameters; the log gives the reason when the phone registers"
        }
        if contact.isReported {
            let since = Words.time(report.date.milliseconds - contact.registeredAt.milliseconds)
            return "device \(contact.deviceName) (\(kind)): reported \(since) ago over HTTP, has not registered"
        }
        let registered = "registered \(Words.time(report.date.milliseconds - contact.registeredAt.milliseconds)) ago"
        let left = contact.expiresAt.milliseconds - report.date.milliseconds
        let expiry: String
        if left > 0 {
            expiry = "expires in \(Words.time(left))"
        } else {
            expiry = "expired \(Words.time(-left)) ago, kept for pushes"
        }
        return "device \(contact.deviceName) (\(kind)): \(registered), \(expiry)"
    }

    // MARK: Nothing found

    private var nobody: String {
        let user = report.name.contains("@") ? "" : "no user is called \(report.name), and "
        let what = report.isUser ? "no user is called \(report.name)" : "\(user)no call \(report.name)"
        return "\(what)\(report.isUser ? ", and no call for that name is" : " is") on record\(retention)"
    }

    private var nothing: String { "No call is on record\(retention)" }

    private var retention: String {
        report.keepsTimeline
            ? " (kept for \(Words.time(report.maximumAge * 1000)))"
            : ": the timeline is switched off (push.timeline.max-records is 0)"
    }

    // MARK: Calls

    /// The records in groups, one for each call, notification or list of missed calls, oldest group first.
    private var calls: [[CallExplanation.Entry]] {
        var calls: [[CallExplanation.Entry]] = []
        var places: [String: Int] = [:]
        for (index, record) in report.records.enumerated() {
            let key: String? =
                switch record.kind {
                case "call": record.callRef.map { "\(record.callID) \($0) \(record.aor)" }
                case "notification": record.code.map { "\($0) \(record.aor)" }
                default: nil
                }
            if let key, let place = places[key] {
                calls[place].append((index, record))
            } else {
                if let key { places[key] = calls.count }
                calls.append([(index, record)])
            }
        }
        return calls.sorted {
            ($0.first?.record.requestedAt.milliseconds ?? 0) < ($1.first?.record.requestedAt.milliseconds ?? 0)
        }
    }
}
