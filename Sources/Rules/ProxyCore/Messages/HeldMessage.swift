package import Addressing
package import Bytes
package import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

/// A request that waits for phones, as its row in the store.
package struct StoredMessage: Hashable, Sendable {
    /// Later messages have higher numbers.
    package let id: UInt64
    package let aor: AddressOfRecord
    /// The account in whose limits the message counts (T25.2).
    package let sender: ByteString
    /// The flow on which the request came.
    package let source: Flow
    package let receivedAt: UnixTime
    package let expiresAt: UnixTime
    /// The devices that have not got the message. It is empty if all of them are gone. The next device that registers
    /// for the user then gets the message.
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
    /// Only these devices have not got the message yet.
    case left(UInt64, [DeviceID])
    case delete(UInt64)
}

/// Identifies a request, so that it is recognised when its sender missed the answer and sends it again. The proved
/// sender is part of the key. So a stranger who guesses a Call-ID cannot suppress another sender's messages (T25.7).
struct MessageKey: Hashable {
    let sender: ByteString
    let callID, fromTag: ByteString
    let cseq: UInt32
    /// The branch of the topmost Via, which identifies the transaction.
    let branch: ByteString

    init(_ request: SIPRequest, from sender: ByteString) {
        self.sender = sender
        callID = request.callID.compacted()
        fromTag = (request.from.tag ?? .empty).compacted()
        cseq = request.cseq.number
        branch = (request.via.branch ?? .empty).compacted()
    }

    /// Whether both are the same request, received on different paths (RFC 3261 section 8.2.2.2).
    func isMerged(with other: MessageKey) -> Bool {
        sender == other.sender && callID == other.callID && fromTag == other.fromTag && cseq == other.cseq
    }
}

/// A request outside dialogs that is sent to the phones of a user (RFC 8599 section 5.6.2).
///
/// It is a class, because deliveries, queue and timers refer to it. Only ``HeldMessages`` changes it.
final class HeldMessage {
    /// How far the message is persisted, and what its sender waits for.
    enum Keeping {
        /// The sender waits for a phone's answer.
        case passing
        /// The row is being written. The sender gets 202 after that.
        case committing
        /// The row is on disk. The sender gets 202.
        case stored
    }

    /// A device that has not got the message.
    struct Recipient {
        let device: DeviceID
        /// The delivery in flight to this device.
        var delivery: ProxiedRequest?
        /// How often the message was sent to this device.
        var tries = 0
    }

    let id: UInt64
    let aor: AddressOfRecord
    let key: MessageKey
    let sender: ByteString
    /// The caller in whose share the message counts.
    let caller: Caller
    let source: Flow
    let receivedAt: UnixTime
    /// When the message is dropped, if it is stored.
    let expiresAt: UnixTime
    /// When the message is given up, if it is not stored.
    let holdUntil: Instant
    /// Whether phones are woken for the message.
    let wakes: Bool
    /// Whether the message may be stored.
    let mayBeStored: Bool

    fileprivate(set) var request: ByteString
    fileprivate(set) var keeping: Keeping
    fileprivate(set) var recipients: [Recipient]
    /// The sender's transaction that waits for an answer; `nil` once it was answered.
    fileprivate(set) var server: ServerTransactionID?
    /// A phone's refusal. It goes to the sender if no other phone accepts the message.
    fileprivate(set) var refusal: SIPResponse?
    /// Whether some device has got the message.
    fileprivate(set) var hasBeenDelivered = false
    /// Whether the message has waited for a device that was asleep or did not answer.
    fileprivate(set) var hasWaited = false
    var deadline: DeadlineID?

    init(
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
        key = MessageKey(request, from: sender)
        self.request = request.frame.bytes.compacted()
        receivedAt = now
        keeping = .passing
        self.recipients = recipients.map { Recipient(device: $0) }
    }

    init(restoring row: StoredMessage, _ request: SIPRequest, from caller: Caller, now: Moment) {
        id = row.id
        aor = row.aor
        sender = row.sender
        self.caller = caller
        source = row.source
        server = nil
        wakes = MessageWords.wakesPhones(request)
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

    var row: StoredMessage {
        StoredMessage(
            id: id, aor: aor, sender: sender, source: source, receivedAt: receivedAt, expiresAt: expiresAt,
            devices: recipients.map(\.device), request: request)
    }

    /// Whether all devices of a stored message are gone. The next device that registers then gets it.
    var isForAnybody: Bool { recipients.isEmpty && keeping == .stored }

    func recipient(_ device: DeviceID) -> Recipient? { recipients.first { $0.device == device } }
}

/// All messages that wait for phones, with their recipients, order and limits.
///
/// It sends nothing and knows no flows. The engine reports events to it and asks for the next message.
struct HeldMessages: ~Copyable {
    /// The messages for each user, oldest first.
    private var queues: [AddressOfRecord: [HeldMessage]] = [:]
    private var byID: [UInt64: HeldMessage] = [:]
    private var senderBytes: [ByteString: Int] = [:]
    private var commits: [CommitTicket: HeldMessage] = [:]
    private(set) var bytes = 0
    /// The bytes of messages from senders that are not trusted peers.
    private var untrustedBytes = 0
    private var lastID: UInt64
    private var lastCommit: UInt64 = 0
    /// The rows of an earlier run, until the bindings are restored.
    private var stored: [StoredMessage]

    /// - Parameter stored: the rows of an earlier run.
    init(restoring stored: [StoredMessage] = []) {
        self.stored = stored
        lastID = stored.map(\.id).max() ?? 0
    }

    /// Returns the rows of an earlier run, oldest first. A second call returns none.
    mutating func takeStored() -> [StoredMessage] { exchange(&stored, with: []).sorted { $0.id < $1.id } }

    var isEmpty: Bool { byID.isEmpty }
    var count: Int { byID.count }

    subscript(id: UInt64) -> HeldMessage? { byID[id] }

    func queue(of aor: AddressOfRecord) -> [HeldMessage] { queues[aor] ?? [] }

    /// Messages of all users with numbers above `id`, oldest first.
    func page(after id: UInt64, limit: Int) -> [HeldMessage] {
        byID.keys.filter { $0 > id }.sorted().prefix(limit).compactMap { byID[$0] }
    }

    /// The answer to a request that waits already; `nil` for a new request. A stored request that is sent again gets
    /// 202. A request that is not stored, and comes again on another path, gets 482.
    func answer(to request: SIPRequest, from sender: ByteString, for aor: AddressOfRecord) -> Status? {
        guard let queue = queues[aor] else { return nil }
        let key = MessageKey(request, from: sender)
        for message in queue where message.key.isMerged(with: key) {
            guard message.keeping == .stored else { return .loopDetected }
            // The message is stored for the phone, so 202 is right (RFC 3428 section 7). The first 202 was lost with
            // the last run.
            if message.key == key { return Self.accepted }
        }
        return nil
    }

    static let accepted: Status = 202

    // MARK: Limits (T25.2)

    enum Refusal {
        /// The user's messages have no room for another.
        case userFull
        /// The sender's share is used up, or the limit for all messages.
        case senderFull
    }

    /// Why a message of this size has no room; `nil` if it has.
    func refusal(
        of size: Int, from sender: ByteString, _ caller: Caller, to aor: AddressOfRecord, _ settings: ProxySettings
    ) -> Refusal? {
        let limits = settings.messages
        let inAll = settings.share(of: limits.totalBytes, ofOne: limits.totalBytes / 16).refusal(
            of: size,
            beside: FairShare.Taken(all: bytes, untrusted: untrustedBytes, own: senderBytes[sender, default: 0]),
            isTrusted: caller.isTrusted)
        if inAll != nil { return .senderFull }
        var count = FairShare.Taken(all: 0, untrusted: 0, own: 0)
        var bytes = count
        for message in queue(of: aor) {
            let size = message.request.count
            count.all += 1
            bytes.all += size
            if !message.caller.isTrusted {
                count.untrusted += 1
                bytes.untrusted += size
            }
            if message.sender == sender {
                count.own += 1
                bytes.own += size
            }
        }
        let refusal =
            settings.share(of: limits.maximumCount).refusal(beside: count, isTrusted: caller.isTrusted)
            ?? settings.share(of: limits.maximumBytes).refusal(of: size, beside: bytes, isTrusted: caller.isTrusted)
        return switch refusal {
        case .callerFull: .senderFull
        case .allFull: .userFull
        case nil: nil
        }
    }

    // MARK: Coming and going

    mutating func newID() -> UInt64 {
        lastID &+= 1
        return lastID
    }

    mutating func add(_ message: HeldMessage) {
        byID[message.id] = message
        queues[message.aor, default: []].append(message)
        count(message.request.count, of: message)
    }

    mutating func remove(_ message: HeldMessage) {
        guard byID.removeValue(forKey: message.id) != nil else { return }
        queues[message.aor]?.removeAll { $0 === message }
        count(-message.request.count, of: message)
        if queues[message.aor]?.isEmpty == true { queues[message.aor] = nil }
    }

    private mutating func count(_ size: Int, of message: HeldMessage) {
        bytes += size
        if !message.caller.isTrusted { untrustedBytes += size }
        let left = senderBytes[message.sender, default: 0] + size
        senderBytes[message.sender] = left > 0 ? left : nil
    }

    // MARK: The sender

    /// - Returns: the transaction that waits for an answer; `nil` if it was answered already.
    func takeServer(of message: HeldMessage) -> ServerTransactionID? {
        defer { message.server = nil }
        return message.server
    }

    func wasDelivered(_ message: HeldMessage) { message.hasBeenDelivered = true }

    func refused(_ message: HeldMessage, by response: SIPResponse) {
        if message.refusal == nil || response.status.statusClass == 6 { message.refusal = response }
    }

    // MARK: The store

    /// Begins to store the message, with these bytes.
    ///
    /// - Returns: the ticket of the commit.
    mutating func commits(_ message: HeldMessage, as request: ByteString) -> CommitTicket {
        lastCommit &+= 1
        let ticket = CommitTicket(lastCommit, of: .messages)
        count(request.count - message.request.count, of: message)
        message.request = request
        message.keeping = .committing
        commits[ticket] = message
        return ticket
    }

    mutating func committed(_ ticket: CommitTicket, succeeded: Bool) -> HeldMessage? {
        guard let message = commits.removeValue(forKey: ticket) else { return nil }
        message.keeping = succeeded ? .stored : .passing
        return message
    }

    // MARK: Devices

    /// The next message for a device: the oldest that it has not got. The result is `nil` while a delivery to it is in
    /// flight. A device that is never woken needs no order, so its next message does not wait for earlier answers.
    func next(for device: DeviceID, of aor: AddressOfRecord, inOrder: Bool) -> HeldMessage? {
        let next = queue(of: aor).first { message in
            message.recipient(device).map { inOrder || $0.delivery == nil } ?? false
        }
        return next?.recipient(device)?.delivery == nil ? next : nil
    }

    /// The delivery in flight to a device.
    func delivery(to device: DeviceID, of aor: AddressOfRecord) -> (message: HeldMessage, call: ProxiedRequest)? {
        for message in queue(of: aor) {
            if let call = message.recipient(device)?.delivery { return (message, call) }
        }
        return nil
    }

    /// Whether a message is for the device.
    func hasMessage(for device: DeviceID, of aor: AddressOfRecord) -> Bool {
        queue(of: aor).contains { $0.recipient(device) != nil }
    }

    /// A device returned. If a push can wake it, it also gets the messages whose devices are gone.
    ///
    /// - Returns: the changes for the store.
    mutating func returned(_ device: DeviceID, of aor: AddressOfRecord, isPush: Bool) -> [MessageChange] {
        guard isPush else { return [] }
        return queue(of: aor).filter(\.isForAnybody).map { message in
            message.recipients = [HeldMessage.Recipient(device: device)]
            return .left(message.id, [device])
        }
    }

    /// The device sleeps: its messages wait.
    func fellAsleep(_ device: DeviceID, of aor: AddressOfRecord) {
        for message in queue(of: aor) where message.recipient(device) != nil { message.hasWaited = true }
    }

    /// A contact gets the messages of devices that were only reported.
    mutating func takenOver(by contact: DeviceID, of aor: AddressOfRecord, where isReported: (DeviceID) -> Bool)
        -> [MessageChange]
    {
        var changes: [MessageChange] = []
        for message in queue(of: aor) {
            let reported = message.recipients.filter { isReported($0.device) }
            guard !reported.isEmpty else { continue }
            message.recipients.removeAll { other in reported.contains { $0.device == other.device } }
            if message.recipient(contact) == nil { message.recipients.append(HeldMessage.Recipient(device: contact)) }
            if message.keeping != .passing { changes.append(.left(message.id, message.recipients.map(\.device))) }
        }
        return changes
    }

    func sent(_ message: HeldMessage, to device: DeviceID, as call: ProxiedRequest) {
        change(message, device) {
            $0.delivery = call
            $0.tries += 1
        }
    }

    /// A delivery did not reach the device.
    ///
    /// - Returns: whether the message was tried often enough to give it up.
    func came(back message: HeldMessage, from device: DeviceID) -> Bool {
        change(message, device) { $0.delivery = nil }
        return (message.recipient(device)?.tries ?? 0) >= Self.mostTries
    }

    /// The number of tries after which a message is given up, so that it does not hold up later messages.
    private static var mostTries: Int { 8 }

    /// The device has got the message, or will not get it.
    func done(_ message: HeldMessage, with device: DeviceID) { message.recipients.removeAll { $0.device == device } }

    private func change(_ message: HeldMessage, _ device: DeviceID, _ body: (inout HeldMessage.Recipient) -> Void) {
        for index in message.recipients.indices where message.recipients[index].device == device {
            body(&message.recipients[index])
        }
    }
}
