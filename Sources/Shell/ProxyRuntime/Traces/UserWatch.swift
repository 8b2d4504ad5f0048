import Addressing
import Bytes
import HEP
import Timekeeping

/// A message or a step of a push in the trace of a user, without secrets.
package struct TraceEvent: Codable, Sendable {
    /// The time of the event in microseconds since 1970.
    package var time: Int64
    /// The address of the peer that sent or gets the message; empty for a push.
    package var peer: String
    /// The transport of the message, or `push`.
    package var transport: String
    package var isIncoming: Bool
    /// The start line of the message, or the step of the push as JSON.
    package var line: String
    package var callID: String
    /// The whole message, if the operator asked for it.
    package var text: String?

    package init(
        time: Int64, peer: String, transport: String, isIncoming: Bool, line: String, callID: String,
        text: String? = nil
    ) {
        (self.time, self.peer, self.transport, self.isIncoming) = (time, peer, transport, isIncoming)
        (self.line, self.callID, self.text) = (line, callID, text)
    }
}

/// The events of a trace since the command's last fetch.
package struct TraceReport: Codable, Sendable {
    package var events: [TraceEvent]
    /// The number of events that the trace has dropped because too many events waited.
    package var dropped: Int
    /// Whether the trace has ended, so that no more events follow.
    package var isOver: Bool
}

/// The messages and pushes of one user; they wait until the operator's command fetches them.
final class UserWatch {
    private var selection: TraceSelection
    private let mask = SecretMask()
    private let keepsText: Bool
    private let end: Instant
    private var lastLook: Instant
    private var events: [TraceEvent] = []
    private var bytes = 0
    private var dropped = 0

    /// The maximum number of bytes of trace events that wait for the operator's command. The command accepts an answer
    /// of one mebibyte, and JSON can make the events six times as long.
    static let limit = 128 << 10
    /// How long a trace continues without a fetch. After this time, the operator's command has probably ended.
    static let patience: Duration = .seconds(10)

    init(user: String, keepsText: Bool, until end: Instant, now: Instant) {
        selection = TraceSelection(users: [user])
        self.keepsText = keepsText
        self.end = end
        lastLook = now
    }

    /// Whether the command that fetches the trace's events has probably ended.
    func isForgotten(now: Instant) -> Bool { now - lastLook > Self.patience }

    func note(_ message: Span<UInt8>, _ outline: SIPOutline, _ traced: TracedMessage, now: Instant) {
        guard now < end, selection.wants(message, outline) else { return }
        var masked: [UInt8] = []
        masked.append(message)
        mask.apply(to: &masked, outline)
        let callID = outline.callID(of: message).map { String(decoding: masked[$0], as: UTF8.self) } ?? ""
        note(
            TraceEvent(
                time: traced.time, peer: "\(traced.isIncoming ? traced.source : traced.target)",
                transport: traced.transport.parameterName, isIncoming: traced.isIncoming,
                line: String(decoding: masked[outline.startLine], as: UTF8.self), callID: callID,
                text: keepsText ? String(decoding: masked, as: UTF8.self) : nil))
    }

    func note(_ step: TracedStep, callID: ByteString, user: ByteString, host: ByteString, now: Instant) {
        guard now < end, selection.wants(callID: callID, user: user, host: host) else { return }
        note(
            TraceEvent(
                time: step.time, peer: "", transport: "push", isIncoming: false,
                line: String(decoding: step.json, as: UTF8.self), callID: callID.string))
    }

    private func note(_ event: TraceEvent) {
        let size = 200 + event.line.utf8.count + event.callID.utf8.count + (event.text?.utf8.count ?? 0)
        guard bytes + size <= Self.limit else {
            dropped += 1
            return
        }
        bytes += size
        events.append(event)
    }

    /// Returns the events of the trace since the last fetch.
    func look(now: Instant) -> TraceReport {
        lastLook = now
        defer { (events, bytes, dropped) = ([], 0, 0) }
        return TraceReport(events: events, dropped: dropped, isOver: now >= end)
    }
}
