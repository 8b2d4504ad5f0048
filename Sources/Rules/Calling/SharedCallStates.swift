package import Bytes
package import Registration

/// The calls of this node whose state the store of a cluster keeps for the other nodes.
///
/// If this node ends, another node continues these calls with the INVITEs that the phones already have. A phone that
/// rings treats such an INVITE as a retransmission. It would refuse a new INVITE of the same call with 482 (RFC 3261
/// section 8.2.2.2).
package struct SharedCallStates {
    private var keys: [UInt64: HeldCallKey] = [:]

    package init() {}

    /// Selects the changes that the store needs. The store has the INVITE of the caller already, so the change has none.
    ///
    /// - Returns: the call's key in the store, and the change; `nil` if the store does not need the change.
    package mutating func noted(_ change: CallChange) -> (key: HeldCallKey, change: CallChange)? {
        switch change {
        case .begun(let call):
            guard call.isInStore, let userCall = call.userCall, let key = call.heldKey(callID: userCall.callID) else {
                return nil
            }
            keys[call.id] = key
            return (key, .begun(call.with(request: .empty)))
        case .branch(let call, _, _): return keys[call].map { ($0, change) }
        case .final(let call, _), .over(let call):
            // The engine deletes the call from the store at its end.
            if !keys.isEmpty { keys[call] = nil }
            return nil
        case .missed: return nil
        }
    }
}

/// The key of a call that the store has for a node.
package struct HeldCallKey: Hashable, Sendable {
    package let aor: AddressOfRecord
    /// The Call-ID. In the key of a phone's call, a line feed and the phone's user follow the Call-ID. So no phone can end
    /// or change the stored call of another caller by using the same Call-ID.
    package let callID: ByteString

    package init(aor: AddressOfRecord, callID: ByteString, phoneOf sender: AddressOfRecord? = nil) {
        self.aor = aor
        guard let sender else {
            self.callID = callID
            return
        }
        self.callID = ByteString(capacity: callID.count + sender.user.count + sender.host.count + 2) { out in
            callID.withSpan { out.append($0) }
            out.append("\n")
            sender.user.withSpan { out.append($0) }
            out.append("@")
            sender.host.withSpan { out.append($0) }
        }
    }

    /// Whether the key fits into an index of the database. A longer key would make all questions fail that the node sends
    /// together with it, so that one caller could keep a node from the database.
    package var fitsStore: Bool { callID.count <= 1_000 && aor.fitsStore }
}

extension AddressOfRecord {
    /// Whether the address fits into an index of the database, beside a Call-ID and the name of a node.
    package var fitsStore: Bool { user.count + host.count <= 1_000 }
}

extension StoredCall {
    /// The call's key in the store of a cluster; `nil` without a called user, and if the store cannot have the key. The
    /// journal does not have the Call-ID.
    package func heldKey(callID: ByteString) -> HeldCallKey? {
        guard let userCall else { return nil }
        let key = HeldCallKey(
            aor: userCall.aor.compacted(), callID: callID.compacted(), phoneOf: isTrusted ? nil : sender)
        return key.fitsStore ? key : nil
    }
}

extension StoredCall {
    /// The call with another INVITE.
    package func with(request: ByteString) -> StoredCall {
        StoredCall(
            id: id, userCall: userCall, receivedAt: receivedAt, source: source, isTrusted: isTrusted, sender: sender,
            request: request, final: final, branches: branches)
    }

    /// The call with the Call-ID of its INVITE, which the journal does not have; `nil` without a called user.
    package func named(_ callID: ByteString) -> StoredCall? {
        guard let userCall else { return nil }
        let named = StoredUserCall(
            aor: userCall.aor, callRef: userCall.callRef, callID: callID, fromTag: userCall.fromTag,
            holdUntil: userCall.holdUntil, mayPush: userCall.mayPush)
        return StoredCall(
            id: id, userCall: named, receivedAt: receivedAt, source: source, isTrusted: isTrusted, sender: sender,
            request: request, final: final, branches: branches)
    }

    /// Creates a call from the changes that its node has written; `nil` if the first change is missing. A restarted node
    /// writes the call again as begun.
    package init?(changes: [CallChange], request: ByteString) {
        guard
            let start = changes.lastIndex(where: { if case .begun = $0 { true } else { false } }),
            case .begun(let begun) = changes[start]
        else { return nil }
        self = begun.with(request: request)
        for change in changes[(start + 1)...] { apply(change) }
    }

    /// The call as another node continues it, with that node's id.
    ///
    /// The other node pushes each phone that it cannot reach once more, because the phone may have registered at the ended
    /// node after the first push. If the call is over, no phone gets a push: the call has been cancelled, or its ring time
    /// has passed.
    package func takenOver(as id: UInt64, isOver: Bool = false) -> StoredCall {
        StoredCall(
            id: id, userCall: userCall, receivedAt: receivedAt, source: source, isTrusted: isTrusted, sender: sender,
            request: request, final: final, branches: branches.map { $0.takenOver(isOver: isOver) })
    }
}

extension StoredCall.Branch {
    /// The branch at the node that takes the call over; an ended branch stays the same.
    fileprivate func takenOver(isOver: Bool) -> StoredCall.Branch {
        guard stage != .ended else { return self }
        var branch = StoredCall.Branch(
            stage: stage, device: device, contact: contact, wasPushed: isOver, wasWoken: isOver,
            deviceKnows: deviceKnows, hasMoved: hasMoved, record: nil, code: nil, end: end, sent: sent, former: former)
        branch.isOfferedAgain = stage == .waiting && !isOver
        return branch
    }
}
