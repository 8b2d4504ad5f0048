package import Addressing
package import Bytes
import Collections
package import SIPTransactions
package import Timekeeping

/// An ended call, kept for phones that got a push for the call and have not registered yet.
package final class EndedCall {
    package let userCall: UserCall
    /// The bytes of the ended call's INVITE.
    package let request: KeptRequest
    package let source: Flow
    package let until: Instant
    /// The devices that get an INVITE and a CANCEL after their next REGISTER, each with the Reason values of the
    /// CANCEL.
    package private(set) var reasons: [DeviceID: [ByteString]]
    /// For each device that may still ring, the INVITE transactions whose connections have ended. A device that may
    /// still ring gets only a CANCEL after its next REGISTER.
    package private(set) var rings: [DeviceID: [ClientTransactionID]]

    package init(
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

    /// Replaces the id of a removed binding by the id of another binding that belongs to the same device.
    package func renamed(_ device: DeviceID, to successor: DeviceID) {
        if let values = reasons.removeValue(forKey: device) { reasons[successor] = values }
        if let clients = rings.removeValue(forKey: device) { rings[successor] = clients }
    }
}

/// The ended calls; each ended call stays for one minute, for phones that may still register.
package struct EndedCalls: ~Copyable {
    private var calls = Queue<EndedCall>()
    /// The total number of bytes of the ended calls' requests.
    package private(set) var bytes = 0

    package var isEmpty: Bool { calls.isEmpty }
    package var nextEnd: Instant? { calls.first?.until }

    package mutating func append(_ call: EndedCall) {
        calls.append(call)
        bytes += call.request.count
    }

    /// Removes and returns the oldest ended call.
    package mutating func dropOldest() -> EndedCall? {
        guard let oldest = calls.popFirst() else { return nil }
        bytes -= oldest.request.count
        return oldest
    }
}
