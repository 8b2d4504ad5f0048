import Addressing
import Bytes
import HEP
import JSON
import PushDelivery
import PushPlanning
import Reactor
package import Routing
package import Telemetry
package import Timekeeping

/// Passes copies of SIP messages and steps of pushes to the HEP collector, and to operators who watch a user. The shard
/// has no taps while nobody looks.
///
/// - The class is `@unchecked Sendable`, because it is used only on the shard's loop.
package final class MessageTaps: @unchecked Sendable {
    /// The address of each listener as others see it, by the number of the listener.
    private let addresses: [Endpoint]
    package var mirror: HEPMirror?

    /// Creates taps for the listeners. Instead of the unspecified address, traces show an address of this machine.
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
    /// Called when somebody begins or ends to look.
    package var whenChanged: () -> Void = {}

    /// The maximum number of operators who watch users at the same time.
    private static let watchLimit = 8

    /// Whether nobody looks, so that the shard needs no taps.
    package var isEmpty: Bool { mirror == nil && watches.isEmpty && !slow.isWanted(now: SystemClock.now) }

    /// The metrics of all mirrors since the start.
    package var figures: CounterSet {
        var figures = earlier
        if let mirror { figures.merge(mirror.figures) }
        return figures
    }

    /// The metrics of mirrors that were replaced.
    private var earlier = CounterSet()

    /// Closes the present mirror, and starts another one.
    package func replaceMirror(by new: HEPMirror?) {
        earlier = figures
        mirror?.close()
        mirror = new
        new?.start()
    }

    /// Copies a message. `local` is the local address of the message's connection; `nil` for UDP.
    func message(_ bytes: Span<UInt8>, isIncoming: Bool, on flow: Flow, local: Endpoint? = nil) {
        if mirror == nil || !watches.isEmpty { forgetWatches() }
        if isEmpty { return whenChanged() }
        guard mirror != nil || !watches.isEmpty, let outline = SIPOutline(bytes) else { return }
        let own = local.flatMap { $0.port == 0 ? nil : $0 } ?? address(of: flow.listener)
        let message = TracedMessage(
            source: isIncoming ? flow.remote : own, target: isIncoming ? own : flow.remote, transport: flow.transport,
            isIncoming: isIncoming, time: SystemClock.microseconds)
        mirror?.copy(bytes, outline, message)
        for watch in watches.values { watch.note(bytes, outline, message, now: SystemClock.now) }
    }

    private func address(of listener: UInt16) -> Endpoint {
        listener < addresses.count ? addresses[Int(listener)] : addresses.first ?? Endpoint(.anyV4, 0)
    }

    // MARK: Pushes

    func pushSent(_ transmission: PushDispatcher.Transmission) {
        copy(PushSteps.sent(transmission).bytes, PushSteps.callID(of: transmission.push), SystemClock.microseconds)
    }

    func pushHappened(_ event: PushDispatcher.Event) {
        slow.note(event, now: SystemClock.now)
        guard let (transmission, json) = PushSteps.result(event) else { return }
        copy(json.bytes, PushSteps.callID(of: transmission.push), SystemClock.microseconds)
    }

    func traced(_ changes: [TimelineChange]) {
        for case .record(let record) in changes {
            for (time, json) in PushSteps.steps(of: record) {
                copy(json.bytes, record.callID, time * 1000, user: record.user, host: record.host)
            }
        }
    }

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
    /// - Returns: the number by which the operator fetches them; `nil` if too many operators watch users.
    package func watch(_ user: String, keepsText: Bool, for time: Duration, now: Instant) -> UInt64? {
        forgetWatches()
        guard watches.count < Self.watchLimit else { return nil }
        lastWatch += 1
        watches[lastWatch] = UserWatch(user: user, keepsText: keepsText, until: now + time, now: now)
        whenChanged()
        return lastWatch
    }

    /// Returns the events of a watch since the last look; `nil` if there is no such watch. A watch whose time is over
    /// ends with this look.
    package func look(at number: UInt64, now: Instant) -> TraceReport? {
        guard let report = watches[number]?.look(now: now) else { return nil }
        if report.isOver {
            watches[number] = nil
            whenChanged()
        }
        return report
    }

    /// Returns the slowest pushes of the last minute, as far as an operator has looked in the last seconds.
    package func slowPushes(now: Instant) -> [SlowPush] {
        defer { whenChanged() }
        return slow.look(now: now)
    }

    /// Ends the watches whose command has ended.
    private func forgetWatches() {
        let now = SystemClock.now
        for (number, watch) in watches where watch.isForgotten(now: now) { watches[number] = nil }
    }
}
