package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import Timekeeping

/// A call that waits or rings, as operators see it.
package struct HeldCall: Hashable, Sendable {
    /// The number for ``ProxyEngine/callDismissed(_:with:now:)`` and for the next page. Later calls have higher ones.
    package let id: UInt64
    package let aor: AddressOfRecord
    package let callRef: CallRef
    package let callID: ByteString
    package let receivedAt: UnixTime
    /// The devices that are waited for.
    package let waiting: [DeviceID]
    /// The devices that have the INVITE, or are about to get it.
    package let ringing: [DeviceID]

    /// `nil` for a request that is not a call to one of our users, and for a call that is over.
    init?(_ call: Call) {
        guard let offer = call.offer, call.fork.phase == .proceeding else { return nil }
        id = call.id.number
        aor = offer.aor
        callRef = offer.ref
        callID = offer.key.callID
        receivedAt = offer.receivedAt
        var waiting: [DeviceID?] = []
        var ringing: [DeviceID?] = []
        for branch in call.fork.branches {
            switch branch.state {
            case .waiting: waiting.append(branch.device)
            case .unsent, .resolving, .calling: ringing.append(branch.contact ?? branch.device)
            case .ended: break
            }
        }
        self.waiting = waiting.compactMap(\.self)
        self.ringing = ringing.compactMap(\.self)
    }
}
