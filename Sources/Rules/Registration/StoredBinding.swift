package import Addressing
package import Bytes
package import Timekeeping

/// A binding as a row of the store. Times in the row are dates, because an `Instant` is valid in one process only.
package struct StoredBinding: Hashable, Sendable {
    package let id: DeviceID
    package let aor: AddressOfRecord
    /// The contact in the form in which bindings store it: see ``ContactText``. The contact is secret if it contains a
    /// push token.
    package let contact: ByteString
    package let callID: ByteString
    package let cseq: UInt32
    package let path: [ByteString]
    /// The flow on which the contact's last REGISTER came. After a restart, the connection of the last REGISTER's flow
    /// is closed, but a UDP flow may still work.
    package let flow: Flow
    package let granted: UInt32
    package let freshUntil: UnixTime
    package let registeredAt: UnixTime
    /// Whether the daemon can wake the device by the push parameters in the contact. If the contact has no push
    /// parameters, or if another proxy sends the pushes, the value is false.
    package let isPush: Bool
    /// The phone's User-Agent, as ``UserAgent`` reads it; empty if the phone sent none. If the User-Agent in the row is
    /// `nil`, the stored User-Agent stays.
    package let userAgent: ByteString?
    /// The nonce with which the device can register again. A refresh that writes the row does not change the column of
    /// the nonce.
    package internal(set) var nonce: KeptNonce

    package init(
        id: DeviceID, aor: AddressOfRecord, contact: ByteString, callID: ByteString, cseq: UInt32,
        path: [ByteString], flow: Flow, granted: UInt32, freshUntil: UnixTime, registeredAt: UnixTime, isPush: Bool,
        userAgent: ByteString? = nil, nonce: KeptNonce = .none
    ) {
        self.id = id
        self.aor = aor
        self.contact = contact
        self.callID = callID
        self.cseq = cseq
        self.path = path
        self.flow = flow
        self.granted = granted
        self.freshUntil = freshUntil
        self.registeredAt = registeredAt
        self.isPush = isPush
        self.userAgent = userAgent
        self.nonce = nonce
    }
}

/// A change of one binding that must be written to the store.
package enum BindingChange: Hashable, Sendable {
    /// Insert the row of a binding, or replace the row with the same id.
    indirect case upsert(StoredBinding)
    case delete(DeviceID)
}

extension StoredBinding {
    init(id: DeviceID, _ content: Binding.Content, from userAgent: ByteString? = nil, now: Moment) {
        self.init(
            id: id, aor: content.aor, contact: content.contact, callID: content.callID, cseq: content.cseq,
            path: content.path, flow: content.flow, granted: content.granted,
            freshUntil: now.date + (content.freshUntil - now.instant), registeredAt: content.registeredAt,
            isPush: content.provider != 0, userAgent: userAgent, nonce: content.nonce)
    }
}
