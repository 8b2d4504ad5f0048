package import Addressing
import SIPGrammar
import Timekeeping

/// A REGISTER that refreshes one contact and leaves its text, flow, Call-ID and Path unchanged, as nearly all REGISTERs
/// do.
///
/// A refresh of a push contact needs no commit, because the old row restores the contact just as well after a restart.
/// So ``BindingTable/apply(_:)`` applies the refresh, and the 200 is sent immediately. A refresh of a contact without
/// push token needs a ``RegisterPlan`` too: its new expiry is written before the 200.
package struct ContactRefresh: Sendable {
    package let id: DeviceID
    /// The slot of the binding, and the first slot of the binding's AOR.
    let slot, first: UInt32
    let cseq: UInt32
    /// The granted time in seconds.
    let granted: UInt32
    let freshUntil: Instant
    let registeredAt: UnixTime
    /// Values for the 200 to the REGISTER.
    let provider: UInt8
    let refreshesItself: Bool
    package let isOutbound: Bool
    let wantsGRUU: Bool
}

extension BindingTable {
    /// Applies the refresh.
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
        if !isLater { scheduleExpiry(of: slot) }
    }
}
