package import Addressing
package import Bytes
package import Timekeeping

/// A binding as a row of the store. Times in the row are dates, because an `Instant` is valid only in one process.
package struct StoredBinding: Hashable, Sendable {
    package let id: DeviceID
    package let aor: AddressOfRecord
    /// The contact's text as bindings store it (see ``ContactText``); the text is secret if it contains a push token.
    package let contact: ByteString
    package let callID: ByteString
    package let cseq: UInt32
    package let path: [ByteString]
    /// The flow of the contact's last REGISTER. After a restart, a connection is closed, but a UDP flow may still work.
    package let flow: Flow
    package let granted: UInt32
    package let freshUntil: UnixTime
    package let registeredAt: UnixTime
    /// Whether the daemon can wake the device by the contact's push parameters. The value is false for a contact
    /// without push parameters, and for a contact whose pushes another proxy sends.
    package let isPush: Bool
    /// The phone's User-Agent, as ``UserAgent`` reads it; empty if the phone sent none; `nil` leaves the stored
    /// User-Agent unchanged.
    package let userAgent: ByteString?
    /// The nonce with which the device can register without a new challenge. A refresh does not change the nonce's
    /// column in the row.
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

extension StoredBinding {
    /// The row with another Path and flow.
    package func with(path: [ByteString], on flow: Flow) -> StoredBinding {
        StoredBinding(
            id: id, aor: aor, contact: contact, callID: callID, cseq: cseq, path: path, flow: flow, granted: granted,
            freshUntil: freshUntil, registeredAt: registeredAt, isPush: isPush, userAgent: userAgent, nonce: nonce)
    }
}

/// A change of one binding for the store.
package enum BindingChange: Hashable, Sendable {
    /// Insert or replace the row of a binding.
    indirect case upsert(StoredBinding)
    /// Write the values that a refresh changes. The row stays unchanged if the device has registered later at another
    /// node. A deleted row stays deleted.
    indirect case refresh(StoredBinding)
    case delete(DeviceID)
    /// Delete the row of a contact if the row still has this contact text. Another node of a cluster may have stored a new
    /// push token of the device.
    case deleteContact(DeviceID, ByteString)
    /// Delete the row of an expired binding, unless the device has registered at another time than the given time.
    /// Another node of a cluster can have accepted a later REGISTER.
    case expire(DeviceID, registeredAt: UnixTime)
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
