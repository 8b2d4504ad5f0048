package import Addressing
package import Bytes
package import Calling
package import Registration
package import Timekeeping

/// An INVITE that waits at a node of a cluster. If the node ends, another node reads the INVITE from the store and
/// continues the call.
package struct HeldInvite: Hashable, Sendable {
    package let aor: AddressOfRecord
    /// The Call-ID as the key of the call has it: see ``HeldCallKey``.
    package let callID: ByteString
    package let request: ByteString
    /// The flow on which the INVITE came. A connection of the flow ends together with the node.
    package let source: Flow
    /// The time after which the caller no longer waits.
    package let until: UnixTime
    /// The state of the call as its node last wrote it, with which another node continues the call; `nil` if the node
    /// wrote no state.
    package let call: StoredCall?

    package init(
        aor: AddressOfRecord, callID: ByteString, request: ByteString, source: Flow, until: UnixTime,
        call: StoredCall? = nil
    ) {
        self.aor = aor
        self.callID = callID
        self.request = request
        self.source = source
        self.until = until
        self.call = call
    }
}

extension HeldInvite {
    package var key: HeldCallKey { HeldCallKey(aor: aor, callID: callID) }

    /// Creates the INVITE of a phone from the first change of its call; `nil` for any other change. The store has the
    /// INVITE of a trusted peer before its call begins, and the INVITE of a phone after the check of the password.
    package init?(ofPhone change: CallChange) {
        guard case .begun(let call) = change, !call.isTrusted, call.isInStore, let userCall = call.userCall,
            let key = call.heldKey(callID: userCall.callID)
        else { return nil }
        self.init(
            aor: key.aor, callID: key.callID, request: call.request, source: call.source, until: userCall.holdUntil)
    }
}

/// The fact that something waits at this node for phones of a user.
package struct Announcement: Sendable {
    package let aor: AddressOfRecord
    /// The INVITE with which another node can continue the call; `nil` for other requests, and for calls of phones: see
    /// ``HeldInvite/init(ofPhone:)``.
    package let invite: HeldInvite?

    package init(aor: AddressOfRecord, invite: HeldInvite?) {
        self.aor = aor
        self.invite = invite
    }
}
