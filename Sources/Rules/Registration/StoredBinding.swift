package import Addressing
package import Bytes
package import Timekeeping

/// A binding as a row of the store. Times are dates, because an `Instant` is valid in its process only.
package struct StoredBinding: Hashable, Sendable {
    package let id: DeviceID
    package let aor: AddressOfRecord
    /// The contact, in the form of ``ContactText``. A contact with a push token is secret.
    package let contact: ByteString
    package let callID: ByteString
    package let cseq: UInt32
    package let path: [ByteString]
    /// The flow of the last REGISTER. After a restart, its connection is closed, but a UDP flow may still work.
    package let flow: Flow
    package let granted: UInt32
    package let freshUntil: UnixTime
    package let registeredAt: UnixTime
    /// Whether the daemon wakes the device by the contact's push parameters. The value is false for a contact without
    /// push parameters, and if another proxy sends the pushes.
    package let isPush: Bool
    /// The phone's User-Agent from ``UserAgent``; empty if the phone sent none. With `nil`, the store keeps the
    /// User-Agent that it has.
    package let userAgent: ByteString?

    package init(
        id: DeviceID, aor: AddressOfRecord, contact: ByteString, callID: ByteString, cseq: UInt32,
        path: [ByteString], flow: Flow, granted: UInt32, freshUntil: UnixTime, registeredAt: UnixTime, isPush: Bool,
        userAgent: ByteString? = nil
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
    }
}

/// A change to the stored row of one binding.
package enum BindingChange: Hashable, Sendable {
    /// Insert the row, or replace the row with this id.
    indirect case upsert(StoredBinding)
    case delete(DeviceID)
}

extension StoredBinding {
    init(id: DeviceID, _ content: Binding.Content, from userAgent: ByteString? = nil, now: Moment) {
        self.init(
            id: id, aor: content.aor, contact: content.contact, callID: content.callID, cseq: content.cseq,
            path: content.path, flow: content.flow, granted: content.granted,
            freshUntil: now.date + (content.freshUntil - now.instant), registeredAt: content.registeredAt,
            isPush: content.provider != 0, userAgent: userAgent)
    }
}
