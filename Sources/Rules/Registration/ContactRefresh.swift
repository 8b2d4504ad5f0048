package import Addressing
import SIPGrammar
import Timekeeping

/// A REGISTER that refreshes one contact, and leaves its text, flow, Call-ID and Path as they are: nearly all are that.
///
/// Of a push contact nothing changes that a restart could lose, since it comes back from its old row just as well. So it is
/// carried out by ``BindingTable/apply(_:)`` and answered in the same moment. An ordinary contact has a ``RegisterPlan``
/// besides, since its row is written first.
package struct ContactRefresh: Sendable {
    package let id: DeviceID
    /// Where the binding stood, and the first one of its AOR.
    let slot, first: UInt32
    let cseq: UInt32
    /// Seconds.
    let granted: UInt32
    let freshUntil: Instant
    let registeredAt: UnixTime
    /// What else the answer says.
    let provider: UInt8
    let refreshesItself: Bool
    package let isOutbound: Bool
    let wantsGRUU: Bool
}

extension BindingTable {
    /// Carries the refresh out.
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
