package import Addressing
import SIPGrammar
import Timekeeping

/// A REGISTER that refreshes one contact, with the same text, flow, Call-ID and Path as before. Nearly all REGISTERs
/// only refresh a contact.
///
/// If the contact has a push token, the refresh need not be stored first, because after a restart the old row is good
/// enough. ``BindingTable/apply(_:)`` applies the refresh of a contact with push token before the 200 is sent. The
/// refresh of a contact without push token also needs a ``RegisterPlan``, which stores the new expiry before the 200 is
/// sent.
package struct ContactRefresh: Sendable {
    package let id: DeviceID
    /// The slot of the binding (`slot`), and the first slot of its AOR (`first`).
    let slot, first: UInt32
    let cseq: UInt32
    /// The granted expiry of the contact in seconds.
    let granted: UInt32
    let freshUntil: Instant
    let registeredAt: UnixTime
    /// The number of the push provider; this number and the next three values are used for the 200 to the REGISTER.
    let provider: UInt8
    let refreshesItself: Bool
    package let isOutbound: Bool
    let wantsGRUU: Bool
    /// The nonce that the binding keeps after the refresh; `nil` for no change.
    var nonce: KeptNonce?
}

extension BindingTable {
    /// Applies a refresh to its binding.
    package mutating func apply(_ refresh: ContactRefresh) {
        let slot: UInt32
        if slots.contains(refresh.slot), self[refresh.slot].id == refresh.id {
            slot = refresh.slot
        } else if let found = self.slot(of: refresh.id) {
            slot = found
        } else {
            return
        }
        let isLater = refresh.freshUntil >= self[slot].freshUntil
        self[slot].cseq = refresh.cseq
        self[slot].granted = refresh.granted
        self[slot].freshUntil = refresh.freshUntil
        self[slot].registeredAt = refresh.registeredAt
        self[slot].marks.subtract([.isBusy, .hasFailed, .wasAskedToRefresh])
        if let nonce = refresh.nonce { self[slot].nonce = nonce }
        if !isLater { scheduleExpiry(of: slot) }
    }
}
