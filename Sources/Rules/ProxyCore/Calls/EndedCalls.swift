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
    private(set) var reasons: [DeviceID: [ByteString]]
    /// Transactions by which phones may still ring although their connections have ended. Such a phone gets only a
    /// CANCEL, no INVITE.
    private(set) var rings: [DeviceID: [ClientTransactionID]]

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

    /// The device has another number from now on.
    func renamed(_ device: DeviceID, to heir: DeviceID) {
        if let values = reasons.removeValue(forKey: device) { reasons[heir] = values }
        if let clients = rings.removeValue(forKey: device) { rings[heir] = clients }
    }
}

/// The calls that are over, each kept for one minute. ``WakeDesk`` finds them by the devices that learn of them.
struct EndedCalls: ~Copyable {
    private var calls = Queue<EndedCall>()
    /// The total bytes of the calls' requests.
    private(set) var bytes = 0

    var isEmpty: Bool { calls.isEmpty }
    var nextEnd: Instant? { calls.first?.until }

    mutating func append(_ call: EndedCall) {
        calls.append(call)
        bytes += call.request.count
    }

    /// Forgets the oldest call.
    mutating func dropOldest() -> EndedCall? {
        guard let oldest = calls.popFirst() else { return nil }
        bytes -= oldest.request.count
        return oldest
    }
}
