import Addressing
import Bytes
import HEP
import JSON
import PushDelivery
import PushPlanning
import Reactor
package import Routing
package import Telemetry
import Timekeeping

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

    package var isEmpty: Bool { mirror == nil }

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
        guard let outline = SIPOutline(bytes) else { return }
        let own = local.flatMap { $0.port == 0 ? nil : $0 } ?? address(of: flow.listener)
        let message = TracedMessage(
            source: isIncoming ? flow.remote : own, target: isIncoming ? own : flow.remote, transport: flow.transport,
            isIncoming: isIncoming, time: SystemClock.microseconds)
        mirror?.copy(bytes, outline, message)
    }

    private func address(of listener: UInt16) -> Endpoint {
        listener < addresses.count ? addresses[Int(listener)] : addresses.first ?? Endpoint(.anyV4, 0)
    }

    // MARK: Pushes

    func pushSent(_ transmission: PushDispatcher.Transmission) {
        copy(PushSteps.sent(transmission).bytes, PushSteps.callID(of: transmission.push), SystemClock.microseconds)
    }

    func pushHappened(_ event: PushDispatcher.Event) {
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
        guard let mirror, mirror.wantsSteps(of: callID, user: user, host: host) else { return }
        mirror.copy(TracedStep(time: time, callID: callID.array, json: json), from: address(of: 0))
    }
}
