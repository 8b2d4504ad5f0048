import Timekeeping

/// A SIP message that an actor (a SIPp process) sent or received.
package struct TracedMessage: Hashable, Sendable {
    /// The time of the message in milliseconds since 1970.
    package var time: Double
    /// Whether the actor sent the message; if false, the actor received it.
    package let isSent: Bool
    /// The label of the message in the ladder diagram, such as `INVITE` or `180 Ringing`. A 2xx also has its method:
    /// `200 OK (INVITE)`.
    package let label: String
    package let callID: String
    package let text: String

    package init(time: Double, isSent: Bool, label: String, callID: String = "", text: String = "") {
        self.time = time
        self.isSent = isSent
        self.label = label
        self.callID = callID
        self.text = text
    }
}

extension [[TracedMessage]] {
    /// The traces with corrected times: a message is sent before another actor receives it. SIPp records the time of a
    /// sent message too late.
    package var straightened: [[TracedMessage]] {
        var arrivals: [String: Double] = [:]
        for message in joined() where !message.isSent {
            arrivals[message.callID + message.label, default: message.time].formMinimum(with: message.time)
        }
        return map { trace in
            var previous = -Double.infinity
            return trace.map { original in
                var message = original
                if message.isSent, let arrival = arrivals[message.callID + message.label],
                    (0..<20).contains(message.time - arrival)
                {
                    message.time = Swift.max(previous, arrival - 0.001)
                }
                previous = message.time
                return message
            }
        }
    }
}

extension Double {
    fileprivate mutating func formMinimum(with other: Double) { self = Swift.min(self, other) }
}

/// Reads SIP messages from the output of SIPp's option `-trace_msg`. SIPp must run in the time zone UTC.
///
/// A message of the trace is a line of dashes and the time, a line such as `UDP message sent (346 bytes):`, an empty
/// line, and the message's text. Other lines of the trace are skipped, so that an incomplete trace can be read too.
package enum MessageTrace {
    package static func messages(in trace: String) -> [TracedMessage] {
        var found: [TracedMessage] = []
        var head: (time: Double, isSent: Bool?)?
        var first: Substring?
        var method: Substring?
        var callID: Substring?
        var end = trace.startIndex
        func finish() {
            guard let time = head?.time, let isSent = head?.isSent, let first else { return }
            let label = label(first, method)
            var text = trace[first.startIndex..<end]
            while text.last?.isNewline == true { text.removeLast() }
            found.append(
                TracedMessage(
                    time: time, isSent: isSent, label: label, callID: String(callID ?? ""), text: String(text)))
        }
        for rawLine in trace.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
            if rawLine.hasPrefix("-----------"), let time = time(in: rawLine) {
                end = rawLine.startIndex
                finish()
                head = (time, nil)
                first = nil
                method = nil
                callID = nil
            } else if head != nil, head?.isSent == nil {
                if rawLine.contains("message sent") { head?.isSent = true }
                if rawLine.contains("message received") { head?.isSent = false }
            } else if first == nil {
                first = rawLine.isEmpty ? nil : rawLine
            } else if method == nil, rawLine.lowercased().hasPrefix("cseq:") {
                method = rawLine.split(separator: " ").last
            } else if callID == nil, rawLine.lowercased().hasPrefix("call-id:") {
                callID = rawLine.split(separator: " ").last
            }
        }
        end = trace.endIndex
        finish()
        return found
    }

    /// The label of a message in the ladder diagram. The argument `first` is the request line or status line.
    private static func label(_ first: Substring, _ method: Substring?) -> String {
        let words = first.split(separator: " ", maxSplits: 1)
        guard words.first == "SIP/2.0" else { return String(words.first ?? "") }
        let status = words.dropFirst().first ?? ""
        guard let method, status.hasPrefix("2") else { return String(status) }
        return "\(status) (\(method))"
    }

    /// Reads the time in a line such as `---- 2026-11-21 05:32:25.479973`, in milliseconds since 1970.
    private static func time(in line: Substring) -> Double? {
        let words = line.split(separator: " ")
        guard words.count >= 3 else { return nil }
        let day = words[1].split(separator: "-").compactMap { Int64($0) }
        let clock = words[2].split(separator: ":")
        guard day.count == 3, clock.count == 3, let hours = Int64(clock[0]), let minutes = Int64(clock[1]),
            let seconds = Double(clock[2]), (1970...9999).contains(day[0]), (1...12).contains(day[1]),
            (1...31).contains(day[2]), (0...23).contains(hours), (0...59).contains(minutes)
        else { return nil }
        let minute = (CivilDate.days(day[0], day[1], day[2]) * 24 + hours) * 60 + minutes
        return (Double(minute) * 60 + seconds) * 1000
    }
}
