package import Addressing
import SIPGrammar
import Timekeeping

/// A REGISTER that refreshes one contact and leaves its text, flow, Call-ID and Path unchanged. Nearly all REGISTERs
/// are refreshes.
///
/// A push contact's refresh needs no commit: after a restart the old row restores the contact just as well. Therefore
/// ``BindingTable/apply(_:)`` carries the refresh out and the REGISTER is answered immediately. An ordinary contact
/// also has a ``RegisterPlan``, because its row is persisted first.
package struct ContactRefresh: Sendable {
    package let id: DeviceID
    /// The slot of the binding, and the first slot of its AOR.
    let slot, first: UInt32
    let cseq: UInt32
    /// The granted time in seconds.
    let granted: UInt32
    let freshUntil: Instant
    let registeredAt: UnixTime
    /// Further values for the answer.
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
