package import Addressing
import Bytes
import Collections
import SIPGrammar
package import Timekeeping

/// Handles the nonces that bindings keep, so that a waking phone need not answer a challenge (T39).
extension BindingTable {
    /// Whether a binding of the AOR keeps the named nonce, has not seen the nonce count, and permits the nonce on the
    /// flow.
    ///
    /// Over UDP, a kept nonce is valid only at an address of the phone's registration, because source addresses can be
    /// forged.
    package func keeps(
        nonce name: UInt64, below count: UInt32, of aor: AddressOfRecord, on flow: Flow, isTrusted: Bool
    ) -> Bool {
        var isFound = false
        // A nonce count that one binding has seen is invalid for all bindings with the nonce (T39.2).
        var isSpent = false
        forEachSlot(of: aor) { slot in
            let nonce = self[slot].nonce
            guard nonce.name == name else { return }
            guard nonce.count < count else { return isSpent = true }
            if isTrusted || flow.isFromProvedAddress || self.flow(at: slot).isAtAddress(of: flow) { isFound = true }
        }
        return isFound && !isSpent
    }

    /// Whether a binding of the AOR keeps the nonce with the given name.
    func isKept(_ name: UInt64, by aor: AddressOfRecord) -> Bool {
        var isKept = false
        forEachSlot(of: aor) { if self[$0].nonce.name == name { isKept = true } }
        return isKept
    }

    /// Removes the nonce with the given name from all bindings of an AOR.
    ///
    /// - Returns: the rows of bindings to write to the store.
    package mutating func forget(nonce name: UInt64, of aor: AddressOfRecord, now: Moment) -> [BindingChange] {
        var forgot: [DeviceID] = []
        var slot = firstSlot(of: aor) ?? Self.noSlot
        while slot != Self.noSlot {
            if self[slot].nonce.name == name {
                self[slot].nonce = .none
                forgot.append(self[slot].id)
            }
            slot = self[slot].next
        }
        return forgot.compactMap { stored($0, now: now) }.map(BindingChange.upsert)
    }

    func nonce(of id: DeviceID) -> KeptNonce { slot(of: id).map { self[$0].nonce } ?? .none }
}

extension Flow {
    /// Whether the transport proves that the peer receives what is sent to its address.
    package var isFromProvedAddress: Bool { transport.isReliable }

    /// Whether both flows have the same source address, with any port.
    package func isAtAddress(of other: Flow) -> Bool { remote.address.source == other.remote.address.source }
}

extension RegisterProcessor {
    /// Stores the nonce of a REGISTER in the binding that the REGISTER refreshes.
    ///
    /// A kept nonce is valid only for a REGISTER that refreshes or removes just its binding.
    func keep(
        _ use: NonceUse, of request: SIPRequest, for aor: AddressOfRecord, on flow: Flow,
        after decision: RegisterDecision,
        in table: borrowing BindingTable, now: Moment
    ) -> RegisterDecision {
        switch decision {
        case .rejected, .challenged: return decision
        case .refreshed(var refresh):
            switch table.nonce(of: refresh.id).change(by: use, isWritten: false) {
            case .refused: return .challenged
            case .unchanged: return decision
            case .counted(let nonce):
                refresh.nonce = nonce
                return .refreshed(refresh)
            case .stored(let nonce):
                guard let contact = request.frame.firstValue(of: .contact) else { return decision }
                refresh.nonce = nonce
                let plan = plan(refresh, nonce, of: request, contact, for: aor, on: flow, now: now)
                plan.announcement.nextNonce = use.next?.text
                return .accepted(plan)
            }
        case .accepted(let plan):
            guard plan.refreshed.count == 1, let id = plan.refreshed.first else {
                let isSignOut = plan.refreshed.isEmpty && plan.removed.contains { table.nonce(of: $0).isUnused(use) }
                // A REGISTER with a kept nonce must refresh or remove exactly one binding. Otherwise the used nonce
                // count would be stored in no binding.
                let isOfBinding = use.origin == .binding || table.isKept(use.name, by: aor)
                return isOfBinding && !isSignOut ? .challenged : decision
            }
            switch table.nonce(of: id).change(by: use, isWritten: plan.writes(id)) {
            case .refused: return .challenged
            case .unchanged: break
            case .counted(let nonce): plan.keep(nonce, at: id)
            case .stored(let nonce):
                plan.keep(nonce, at: id)
                plan.write(id, from: UserAgent.said(in: request), now: now)
                plan.announcement.nextNonce = use.next?.text
            }
            return decision
        }
    }
}

extension KeptNonce {
    fileprivate func isUnused(_ use: NonceUse) -> Bool { name == use.name && use.count > count }
}

extension RegisterPlan {
    /// Whether the store writes the row of the binding `id` before the 200.
    fileprivate func writes(_ id: DeviceID) -> Bool {
        persist.contains { change in
            guard case .upsert(let row) = change else { return false }
            return row.id == id
        }
    }

    fileprivate func keep(_ nonce: KeptNonce, at id: DeviceID) {
        changesNonce = true
        refresh?.nonce = nonce
        for index in installs.indices where installs[index].id == id { installs[index].content.nonce = nonce }
        for index in persist.indices {
            guard case .upsert(var row) = persist[index], row.id == id else { continue }
            row.nonce = nonce
            persist[index] = .upsert(row)
        }
    }

    /// Makes the store write the row of the binding `id` before the 200 is sent.
    fileprivate func write(_ id: DeviceID, from userAgent: ByteString, now: Moment) {
        guard !writes(id), let install = installs.first(where: { $0.id == id }) else { return }
        persist.append(.upsert(StoredBinding(id: id, install.content, from: userAgent, now: now)))
        bookkeeping = ShortList()
    }
}
