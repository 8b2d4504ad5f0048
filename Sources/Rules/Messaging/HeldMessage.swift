package import Addressing
package import Bytes
package import Calling
import ProxyPolicy
package import Registration
package import SIPGrammar
package import SIPTransactions
package import Timekeeping

/// A message that waits for phones, as the store keeps it.
package struct StoredMessage: Hashable, Sendable {
    /// The id of the message; later messages have higher ids.
    package let id: UInt64
    package let aor: AddressOfRecord
    /// The sender whose rate limits count the message (T25.2).
    package let sender: ByteString
    /// The flow on which the message came.
    package let source: Flow
    package let receivedAt: UnixTime
    package let expiresAt: UnixTime
    /// The devices that have not got the message; if empty, the user's next device that registers gets the message.
    package var devices: [DeviceID]
    package let request: ByteString

    package init(
        id: UInt64, aor: AddressOfRecord, sender: ByteString, source: Flow, receivedAt: UnixTime, expiresAt: UnixTime,
        devices: [DeviceID], request: ByteString
    ) {
        self.id = id
        self.aor = aor
        self.sender = sender
        self.source = source
        self.receivedAt = receivedAt
        self.expiresAt = expiresAt
        self.devices = devices
        self.request = request
    }
}

/// A change of the stored messages.
package enum MessageChange: Hashable, Sendable {
    case insert(StoredMessage)
    /// The message with the given id waits only for the given devices now.
    case left(UInt64, [DeviceID])
    case delete(UInt64)
}

/// The key by which the daemon recognises a copy of a message; a sender repeats a message if the response was lost.
///
/// The key of a message contains the authenticated sender, so that a stranger who guesses a Call-ID cannot suppress the
/// message (T25.7).
package struct MessageKey: Hashable {
    package let sender: ByteString
    package let callID, fromTag: ByteString
    package let cseq: UInt32
    /// The branch of the topmost Via, which identifies the transaction.
    package let branch: ByteString

    package init(_ request: SIPRequest, from sender: ByteString) {
        self.sender = sender
        callID = request.callID.compacted()
        fromTag = (request.from.tag ?? .empty).compacted()
        cseq = request.cseq.number
        branch = (request.via.branch ?? .empty).compacted()
    }

    /// Whether both keys belong to one request that arrived by different paths (RFC 3261 section 8.2.2.2).
    func isMerged(with other: MessageKey) -> Bool {
        sender == other.sender && callID == other.callID && fromTag == other.fromTag && cseq == other.cseq
    }
}

/// A request outside dialogs, such as a MESSAGE, that waits for a user's phones (RFC 8599 section 5.6.2).
///
/// ``HeldMessage`` is a class, because deliveries, queues and timers refer to one message. Only ``HeldMessages``
/// changes a message.
package final class HeldMessage {
    /// Whether the message is in the store, and which response the sender expects.
    package enum Keeping {
        /// The message is not stored, and the sender waits for a phone's response.
        case passing
        /// The store is writing the message, and the sender gets 202 after the write.
        case committing
        /// The message is stored, and the sender has got 202.
        case stored
    }

    /// A device that has not got the message yet.
    package struct Recipient {
        package let device: DeviceID
        /// The delivery that is in flight to the recipient; `nil` without a delivery in flight.
        package internal(set) var delivery: ProxiedRequest?
        /// How many times the message was sent to its recipient.
        package internal(set) var tries = 0
    }

    package let id: UInt64
    package let aor: AddressOfRecord
    package let key: MessageKey
    package let sender: ByteString
    /// The caller whose rate limits apply to the message.
    package let caller: Caller
    package let source: Flow
    package let receivedAt: UnixTime
    /// The time at which a stored message is dropped.
    package let expiresAt: UnixTime
    /// The instant at which an unstored message is given up.
    package let holdUntil: Instant
    /// Whether pushes wake phones for the message.
    package let wakes: Bool
    /// Whether the message can be written to the store.
    package let mayBeStored: Bool
    /// The event package of a NOTIFY; `nil` for other requests. Among NOTIFYs with an equal event package, only the
    /// latest NOTIFY waits for the phones.
    package let event: ByteString?
    /// Whether the message is a NOTIFY that a PBX sends without a subscription.
    package var isNotice: Bool { event != nil && mayBeStored }

    package internal(set) var request: ByteString
    package internal(set) var keeping: Keeping
    package internal(set) var recipients: [Recipient]
    /// The transaction of the waiting sender; `nil` after the response.
    package internal(set) var server: ServerTransactionID?
    /// A phone's refusal, which the sender gets if no other phone accepts the message.
    package internal(set) var refusal: SIPResponse?
    /// Whether at least one device has got the message.
    package internal(set) var hasBeenDelivered = false
    /// Whether the message has waited for a device that was asleep or did not answer.
    package internal(set) var hasWaited = false
    package private(set) var deadline: DeadlineID?

    package init(
        id: UInt64, aor: AddressOfRecord, _ request: SIPRequest, sender: ByteString, caller: Caller, source: Flow,
        server: ServerTransactionID, recipients: [DeviceID], wakes: Bool, mayBeStored: Bool, expiresAt: UnixTime,
        holdUntil: Instant, now: UnixTime
    ) {
        self.id = id
        self.aor = aor
        self.sender = sender
        self.caller = caller
        self.source = source
        self.server = server
        self.wakes = wakes
        self.mayBeStored = mayBeStored
        self.expiresAt = expiresAt
        self.holdUntil = holdUntil
        event = MessageWords.event(of: request)
        key = MessageKey(request, from: sender)
        self.request = request.frame.bytes.compacted()
        receivedAt = now
        keeping = .passing
        self.recipients = recipients.map { Recipient(device: $0) }
    }

    package init(restoring row: StoredMessage, _ request: SIPRequest, from caller: Caller, now: Moment) {
        id = row.id
        aor = row.aor
        sender = row.sender
        self.caller = caller
        source = row.source
        server = nil
        event = MessageWords.event(of: request)
        wakes = event == nil ? MessageWords.wakesPhones(request) : MessageWords.isUrgent(request)
        mayBeStored = true
        expiresAt = row.expiresAt
        holdUntil = now.instant
        key = MessageKey(request, from: row.sender)
        self.request = row.request
        receivedAt = row.receivedAt
        keeping = .stored
        recipients = row.devices.map { Recipient(device: $0) }
        hasWaited = true
    }

    package var row: StoredMessage {
        StoredMessage(
            id: id, aor: aor, sender: sender, source: source, receivedAt: receivedAt, expiresAt: expiresAt,
            devices: recipients.map(\.device), request: request)
    }

    /// Whether the next device that registers gets the message, because the message is stored and all its devices were
    /// removed.
    var isForAnybody: Bool { recipients.isEmpty && keeping == .stored }

    /// Stores the message's timer.
    package func waits(until deadline: DeadlineID) { self.deadline = deadline }

    /// Removes and returns the message's timer, which has fired or is no longer needed.
    package func stopsWaiting() -> DeadlineID? {
        defer { deadline = nil }
        return deadline
    }

    package func recipient(_ device: DeviceID) -> Recipient? { recipients.first { $0.device == device } }
}
