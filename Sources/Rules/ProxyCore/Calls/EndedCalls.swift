import Addressing
import Bytes
import Collections
import SIPTransactions
import Timekeeping

/// A call that is over, kept for phones that were woken for it and have not registered yet.
final class EndedCall {
    let userCall: UserCall
    /// The INVITE's bytes.
    let request: KeptRequest
    let source: Flow
    let until: Instant
    /// The devices that learn of the call when they register, each with the Reason values of its CANCEL.
    let reasons: [DeviceID: [ByteString]]
    /// Transactions by which phones may still ring although their connections have ended. Such a phone gets only a
    /// CANCEL, no INVITE.
    let rings: [DeviceID: [ClientTransactionID]]

    init(
        userCall: UserCall, request: KeptRequest, source: Flow, until: Instant, reasons: [DeviceID: [ByteString]],
        rings: [DeviceID: [ClientTransactionID]]
    ) {
        self.rings = rings
        self.userCall = userCall
        self.request = request
        self.source = source
        self.until = until
        self.reasons = reasons
    }
}

/// The calls that are over, each kept for one minute.
struct EndedCalls: ~Copyable {
    private var calls = Queue<EndedCall>()
    private var byDevice: [DeviceID: [EndedCall]] = [:]
    /// The total bytes of the calls' requests.
    private(set) var bytes = 0

    var isEmpty: Bool { calls.isEmpty }
    var nextEnd: Instant? { calls.first?.until }

    mutating func append(_ call: EndedCall) {
        calls.append(call)
        bytes += call.request.count
        for device in call.reasons.keys { byDevice[device, default: []].append(call) }
    }

    /// Takes out the ended calls that the device still has to learn about.
    mutating func take(for device: DeviceID) -> [EndedCall] { byDevice.removeValue(forKey: device) ?? [] }

    /// Forgets the oldest call.
    ///
    /// - Returns: the devices of that call that wait for no other ended call; `nil` if the list was empty.
    mutating func dropOldest() -> [DeviceID]? {
        guard let oldest = calls.popFirst() else { return nil }
        bytes -= oldest.request.count
        var idle: [DeviceID] = []
        for device in oldest.reasons.keys {
            guard var others = byDevice[device] else { continue }
            others.removeAll { $0 === oldest }
            byDevice[device] = others.isEmpty ? nil : others
            if others.isEmpty { idle.append(device) }
        }
        return idle
    }
}
