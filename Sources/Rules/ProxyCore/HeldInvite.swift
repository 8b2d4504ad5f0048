package import Addressing
package import Bytes
package import Registration
package import Timekeeping

/// An INVITE that waits at a node of a cluster. If the node ends, another node reads the INVITE from the store and
/// continues the call.
package struct HeldInvite: Hashable, Sendable {
    package let aor: AddressOfRecord
    package let callID: ByteString
    package let request: ByteString
    /// The flow on which the INVITE came. A connection of the flow ends together with the node.
    package let source: Flow
    /// The time after which the caller no longer waits.
    package let until: UnixTime

    package init(aor: AddressOfRecord, callID: ByteString, request: ByteString, source: Flow, until: UnixTime) {
        self.aor = aor
        self.callID = callID
        self.request = request
        self.source = source
        self.until = until
    }
}

extension HeldInvite {
    package var key: HeldCallKey { HeldCallKey(aor: aor, callID: callID) }
}

/// The key of an INVITE that the store has for a node.
package struct HeldCallKey: Hashable, Sendable {
    package let aor: AddressOfRecord
    package let callID: ByteString

    package init(aor: AddressOfRecord, callID: ByteString) {
        self.aor = aor
        self.callID = callID
    }
}

/// The fact that something waits at this node for phones of a user.
package struct Announcement: Sendable {
    package let aor: AddressOfRecord
    /// The INVITE with which another node can continue the call; `nil` for other requests, and for calls of phones.
    package let invite: HeldInvite?

    package init(aor: AddressOfRecord, invite: HeldInvite?) {
        self.aor = aor
        self.invite = invite
    }
}
