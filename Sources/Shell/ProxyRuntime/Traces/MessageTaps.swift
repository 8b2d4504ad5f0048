package import Addressing
import Bytes
import HEP
import JSON
import OTLP
import ProxyCore
import PushDelivery
import PushPlanning
import Reactor
package import Routing
import ServiceEvents
package import Telemetry
package import Timekeeping

/// Passes copies of SIP messages and steps of pushes to the HEP collector, and to operators who trace a user by
/// `sippushd trace`. The ends of calls go to the OTLP collector. While neither a collector nor an operator needs copies
/// of messages, the shard has no ``MessageTaps``.
///
/// - The class is `@unchecked Sendable`, because only the event loop of the shard uses it.
package final class MessageTaps: @unchecked Sendable {
    /// The address at which other hosts reach each listener, by the number of the listener.
    private let addresses: [Endpoint]
    package var mirror: HEPMirror?
    /// The spans of calls; `nil` while the settings name no OTLP collector.
    package var spans: CallSpans?
    /// The senders of spans that the settings switched off, until their spans are sent.
    private var endingSpans: [CallSpans] = []

    /// Creates the ``MessageTaps`` for the given listeners. Traces show an address of this machine instead of the
    /// unspecified address.
    package init(listeners: [Listener]) {
        var addresses: [Endpoint] = []
        for listener in listeners {
            while addresses.count <= Int(listener.number) { addresses.append(Endpoint(.anyV4, 0)) }
            let bound = listener.bound
            addresses[Int(listener.number)] =
                bound.address.isUnspecified
                ? Endpoint(HostAddress.primary(isV4: bound.address.isV4), bound.port) : bound
        }
        self.addresses = addresses
    }

    private var watches: [UInt64: UserWatch] = [:]
    private var lastWatch: UInt64 = 0
    private var slow = SlowPushes()
    /// The closure that is called when a trace or a copy of messages begins or ends.
    package var whenChanged: () -> Void = {}

    /// The maximum number of operators who trace users at the same time.
    private static let watchLimit = 8

    /// Whether no collector and no trace needs copies of messages, so that the shard needs no ``MessageTaps``.
    package var isEmpty: Bool {
        mirror == nil && watches.isEmpty && spans == nil && !slow.isWanted(now: SystemClock.now)
    }

    /// The metrics of all mirrors and spans since the start.
    package var figures: CounterSet {
        var figures = earlier
        if let mirror { figures.merge(mirror.figures) }
        if let spans { figures.merge(spans.figures) }
        for spans in endingSpans { figures.merge(spans.figures) }
        return figures
    }

    /// The metrics of mirrors and spans that were replaced.
    private var earlier = CounterSet()

    /// Closes the present mirror, and starts another mirror.
    package func replaceMirror(by new: HEPMirror?) {
        if let mirror { earlier.merge(mirror.figures) }
        mirror?.close()
        mirror = new
        new?.start()
    }

    /// Sends the waiting spans to the collector, makes no more spans, and gives up after ``timeToEnd``.
    package func endSpans(_ done: @escaping () -> Void = {}) {
        guard let ending = spans else { return done() }
        spans = nil
        endingSpans.append(ending)
        ending.finish(within: Self.timeToEnd) { [weak self] in
            if let self {
                earlier.merge(ending.figures)
                endingSpans.removeAll { $0 === ending }
            }
            done()
        }
    }

    private static let timeToEnd: Duration = .seconds(2)

    /// The id of the call's trace; `nil` while the daemon sends no spans.
    package func traceID(ofCall callID: String) -> String? {
        spans == nil || callID.isEmpty ? nil : TraceID(ofCall: ByteString(callID)).description
    }

    /// Copies a SIP message for the collector and for operators' traces. The parameter `local` is the local address of
    /// the message's connection; `nil` for UDP.
    func message(_ bytes: Span<UInt8>, isIncoming: Bool, on flow: Flow, local: Endpoint? = nil) {
        if !watches.isEmpty { forgetWatches() }
        if isEmpty { return whenChanged() }
        guard hasReader, let outline = SIPOutline(bytes) else { return }
        let own = local.flatMap { $0.port == 0 ? nil : $0 } ?? address(of: flow.listener)
        let message = TracedMessage(
            source: isIncoming ? flow.remote : own, target: isIncoming ? own : flow.remote, transport: flow.transport,
            isIncoming: isIncoming, time: SystemClock.microseconds)
        mirror?.copy(bytes, outline, message)
        for watch in watches.values { watch.note(bytes, outline, message, now: SystemClock.now) }
    }

    /// Whether a collector or a trace needs the messages and the steps of pushes.
    private var hasReader: Bool { mirror != nil || !watches.isEmpty }

    private func address(of listener: UInt16) -> Endpoint {
        listener < addresses.count ? addresses[Int(listener)] : addresses.first ?? Endpoint(.anyV4, 0)
    }

    // MARK: Pushes

    func pushSent(_ transmission: PushDispatcher.Transmission) {
        guard hasReader else { return }
        copy(PushSteps.sent(transmission).bytes, PushSteps.callID(of: transmission.push), SystemClock.microseconds)
    }

    func pushHappened(_ event: PushDispatcher.Event) {
        slow.note(event, now: SystemClock.now)
        guard hasReader, let (transmission, json) = PushSteps.result(event) else { return }
        copy(json.bytes, PushSteps.callID(of: transmission.push), SystemClock.microseconds)
    }

    func traced(_ changes: [TimelineChange]) {
        for case .record(let record) in changes {
            spans?.noted(record)
            guard hasReader else { continue }
            for (time, json) in PushSteps.steps(of: record) {
                copy(json.bytes, record.callID, time * 1000, user: record.user, host: record.host)
            }
        }
    }

    func ended(_ call: EndedCallReport) { spans?.ended(call) }

    private func copy(
        _ json: [UInt8], _ callID: ByteString, _ time: Int64, user: ByteString = .empty, host: ByteString = .empty
    ) {
        let step = TracedStep(time: time, callID: callID.array, json: json)
        if let mirror, mirror.wantsSteps(of: callID, user: user, host: host) {
            mirror.copy(step, from: address(of: 0))
        }
        for watch in watches.values {
            watch.note(step, callID: callID, user: user, host: host, now: SystemClock.now)
        }
    }

    // MARK: Operators

    /// Begins to keep the messages and pushes of a user.
    ///
    /// - Returns: the number by which the command fetches messages and pushes; `nil` if too many operators trace users.
    package func watch(_ user: String, keepsText: Bool, for time: Duration, now: Instant) -> UInt64? {
        forgetWatches()
        guard watches.count < Self.watchLimit else { return nil }
        lastWatch += 1
        watches[lastWatch] = UserWatch(user: user, keepsText: keepsText, until: now + time, now: now)
        whenChanged()
        return lastWatch
    }

    /// The events of a trace since the command's last fetch; `nil` if no trace has the number. A trace whose time is
    /// over ends when its events are fetched.
    package func look(at number: UInt64, now: Instant) -> TraceReport? {
        guard let report = watches[number]?.look(now: now) else { return nil }
        if report.isOver {
            watches[number] = nil
            whenChanged()
        }
        return report
    }

    /// The slowest pushes of the last minute; pushes are noted only for some seconds after each call.
    package func slowPushes(now: Instant) -> [SlowPush] { slowPushesOfDevices(now: now).map(\.push) }

    /// The slowest pushes of ``slowPushes(now:)``, with their devices.
    package func slowPushesOfDevices(now: Instant) -> [(device: DeviceID, push: SlowPush)] {
        defer { whenChanged() }
        return slow.look(now: now)
    }

    /// Ends the traces whose command `sippushd trace` has ended.
    private func forgetWatches() {
        let now = SystemClock.now
        for (number, watch) in watches where watch.isForgotten(now: now) { watches[number] = nil }
    }
}
