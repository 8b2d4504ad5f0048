package import Addressing
package import Bytes
package import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

/// A request that waits for phones, as it stands in the store.
package struct StoredMessage: Hashable, Sendable {
    /// Later ones have higher numbers.
    package let id: UInt64
    package let aor: AddressOfRecord
    /// Whom it counts for.
    package let sender: ByteString
    /// Where it came from.
    package let source: Flow
    package let receivedAt: UnixTime
    package let expiresAt: UnixTime
    /// Those that have not got it; empty when all of them are gone, and the next one that comes shall have it.
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

/// What the store must do to keep the messages.
package enum MessageChange: Hashable, Sendable {
    case insert(StoredMessage)
    /// Only these devices have not got it.
    case left(UInt64, [DeviceID])
    case delete(UInt64)
}

/// What makes two requests the same one, sent twice by somebody who did not hear the answer. Who has proved to send it belongs to
/// it: whoever knows or guesses another's Call-ID takes nothing from him (T25.7).
struct MessageKey: Hashable {
    let sender: ByteString
    let callID, fromTag: ByteString
    let cseq: UInt32
    /// Of the topmost Via: the transaction.
    let branch: ByteString

    init(_ request: SIPRequest, from sender: ByteString) {
        self.sender = sender
        callID = request.callID.compacted()
        fromTag = (request.from.tag ?? .empty).compacted()
        cseq = request.cseq.number
        branch = (request.via.branch ?? .empty).compacted()
    }

    /// The same request by another way (RFC 3261 section 8.2.2.2).
    func isMerged(with other: MessageKey) -> Bool {
        sender == other.sender && callID == other.callID && fromTag == other.fromTag && cseq == other.cseq
    }
}

/// A request outside dialogs on its way to the phones of a user (RFC 8599 section 5.6.2).
///
/// A class, since deliveries, queue and timers hold it. ``HeldMessages`` alone changes it.
final class HeldMessage {
    /// Where it stands with its sender and the store.
    enum Keeping {
        /// Its sender waits for a phone's answer.
        case passing
        /// Its row is being written; then its sender gets 202.
        case committing
        /// It is on the disk.
        case stored
    }

    /// One device that has not got it.
    struct Recipient {
        let device: DeviceID
        /// On its way there.
        var delivery: Call?
        /// How often it was sent there in vain.
        var tries = 0
    }

    let id: UInt64
    let aor: AddressOfRecord
    let key: MessageKey
    let sender: ByteString
    /// Who answers for it.
    let caller: Caller
    let source: Flow
    let receivedAt: UnixTime
    /// When a stored one is dropped.
    let expiresAt: UnixTime
    /// When a passing one is given up.
    let holdUntil: Instant
    /// Whether phones are woken for it.
    let wakes: Bool
    /// Whether it may be stored.
    let mayBeStored: Bool

    fileprivate(set) var request: ByteString
    fileprivate(set) var keeping: Keeping
    fileprivate(set) var recipients: [Recipient]
    /// Who waits for an answer.
    fileprivate(set) var server: ServerTransactionID?
    /// The refusal of a phone that goes to the sender if no other phone takes it.
    fileprivate(set) var refusal: SIPResponse?
    /// Some device has it.
    fileprivate(set) var hasBeenDelivered = false
    /// Some device was woken for it, or sent it in vain.
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

    /// All devices that it was for are gone: the next one that comes shall have it.
    var isForAnybody: Bool { recipients.isEmpty && keeping == .stored }

    func recipient(_ device: DeviceID) -> Recipient? { recipients.first { $0.device == device } }
}

/// The requests that wait for one user, oldest first, and what is known of the user's devices meanwhile.
struct MessageQueue {
    struct Device {
        /// It did not answer, or could not be reached: nothing is sent to it before it comes back.
        var isAsleep = false
        /// It was woken since it was last here.
        var wasWoken = false
    }

    fileprivate(set) var messages: [HeldMessage] = []
    fileprivate(set) var devices: [DeviceID: Device] = [:]
}

/// All requests that wait for phones: who waits for what, in which order, and within which limits.
///
/// It sends nothing and knows no flows: it is told what happened, and says what is next.
struct HeldMessages: ~Copyable {
    private var queues: [AddressOfRecord: MessageQueue] = [:]
    private var byID: [UInt64: HeldMessage] = [:]
    private var senderBytes: [ByteString: Int] = [:]
    private var commits: [CommitTicket: HeldMessage] = [:]
    private(set) var bytes = 0
    /// What others than trusted peers have sent of them.
    private var untrustedBytes = 0
    private var lastID: UInt64
    private var lastCommit: UInt64 = 0
    /// What was stored, until the bindings are there.
    private var stored: [StoredMessage]

    /// - Parameter stored: what an earlier run has left.
    init(restoring stored: [StoredMessage] = []) {
        self.stored = stored
        lastID = stored.map(\.id).max() ?? 0
    }

    /// What an earlier run has left, oldest first. The second time there is nothing.
    mutating func takeStored() -> [StoredMessage] { exchange(&stored, with: []).sorted { $0.id < $1.id } }

    var isEmpty: Bool { byID.isEmpty }
    var count: Int { byID.count }

    subscript(id: UInt64) -> HeldMessage? { byID[id] }

    func queue(of aor: AddressOfRecord) -> [HeldMessage] { queues[aor]?.messages ?? [] }

    /// Those of all users that follow a number, oldest first.
    func page(after id: UInt64, limit: Int) -> [HeldMessage] {
        byID.keys.filter { $0 > id }.sorted().prefix(limit).compactMap { byID[$0] }
    }

    /// What is to be answered to a request that waits already: it is the same, or has come by another way too and is under way.
    func answer(to request: SIPRequest, from sender: ByteString, for aor: AddressOfRecord) -> Status? {
        guard let queue = queues[aor] else { return nil }
        let key = MessageKey(request, from: sender)
        for message in queue.messages where message.key.isMerged(with: key) {
            guard message.keeping == .stored else { return .loopDetected }
            // RFC 3428 section 7: somebody keeps it for the phone. The answer to it was lost with the last run.
            if message.key == key { return Self.accepted }
        }
        return nil
    }

    static let accepted: Status = 202

    // MARK: Limits (T25.2)

    enum Refusal {
        /// Too much waits for the user.
        case userFull
        /// Too much of this sender's waits, or too much in all.
        case senderFull
    }

    /// Whether there is room for one more.
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
        for message in queues[aor]?.messages ?? [] {
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
        queues[message.aor, default: MessageQueue()].messages.append(message)
        count(message.request.count, of: message)
    }

    mutating func remove(_ message: HeldMessage) {
        guard byID.removeValue(forKey: message.id) != nil else { return }
        queues[message.aor]?.messages.removeAll { $0 === message }
        count(-message.request.count, of: message)
        if queues[message.aor]?.messages.isEmpty == true { queues[message.aor] = nil }
    }

    private mutating func count(_ size: Int, of message: HeldMessage) {
        bytes += size
        if !message.caller.isTrusted { untrustedBytes += size }
        let left = senderBytes[message.sender, default: 0] + size
        senderBytes[message.sender] = left > 0 ? left : nil
    }

    // MARK: The sender

    /// - Returns: who waits for the answer that is about to be sent; `nil` when there was one already.
    func takeServer(of message: HeldMessage) -> ServerTransactionID? {
        defer { message.server = nil }
        return message.server
    }

    func wasDelivered(_ message: HeldMessage) { message.hasBeenDelivered = true }

    func refused(_ message: HeldMessage, by response: SIPResponse) {
        if message.refusal == nil || response.status.statusClass == 6 { message.refusal = response }
    }

    // MARK: The store

    /// The message is going to be stored as these bytes.
    ///
    /// - Returns: the ticket of its row.
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

    /// What is to be sent to a device next: the oldest that it has not got, unless one is on its way or the device sleeps.
    /// One that is never woken has no order to keep, and nothing waits for the answer to what was sent before.
    func next(for device: DeviceID, of aor: AddressOfRecord, inOrder: Bool) -> HeldMessage? {
        guard let queue = queues[aor], queue.devices[device]?.isAsleep != true else { return nil }
        let next = queue.messages.first { message in
            message.recipient(device).map { inOrder || $0.delivery == nil } ?? false
        }
        return next?.recipient(device)?.delivery == nil ? next : nil
    }

    /// The delivery that is on its way to a device.
    func delivery(to device: DeviceID, of aor: AddressOfRecord) -> (message: HeldMessage, call: Call)? {
        for message in queue(of: aor) {
            if let call = message.recipient(device)?.delivery { return (message, call) }
        }
        return nil
    }

    func isAsleep(_ device: DeviceID, of aor: AddressOfRecord) -> Bool {
        queues[aor]?.devices[device]?.isAsleep == true
    }

    /// It gets what was for devices that are gone.
    ///
    /// - Returns: what changes in the store.
    mutating func returned(_ device: DeviceID, of aor: AddressOfRecord, isPush: Bool) -> [MessageChange] {
        queues[aor]?.devices[device] = nil
        guard isPush else { return [] }
        return queue(of: aor).filter(\.isForAnybody).map { message in
            message.recipients = [HeldMessage.Recipient(device: device)]
            return .left(message.id, [device])
        }
    }

    mutating func fellAsleep(_ device: DeviceID, of aor: AddressOfRecord) {
        queues[aor]?.devices[device, default: MessageQueue.Device()].isAsleep = true
        for message in queue(of: aor) where message.recipient(device) != nil { message.hasWaited = true }
    }

    /// A contact gets what was for devices that were only reported.
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

    /// - Returns: whether it is to be woken now: once, however much waits for it.
    mutating func takesWake(_ device: DeviceID, of aor: AddressOfRecord) -> Bool {
        guard queues[aor] != nil, queues[aor]?.devices[device]?.wasWoken != true else { return false }
        queues[aor]?.devices[device, default: MessageQueue.Device()].wasWoken = true
        return true
    }

    mutating func wakeFailed(_ device: DeviceID, of aor: AddressOfRecord) {
        queues[aor]?.devices[device]?.wasWoken = false
    }

    func sent(_ message: HeldMessage, to device: DeviceID, as call: Call) {
        change(message, device) {
            $0.delivery = call
            $0.tries += 1
        }
    }

    /// It did not get there.
    ///
    /// - Returns: whether it was tried often enough.
    func came(back message: HeldMessage, from device: DeviceID) -> Bool {
        change(message, device) { $0.delivery = nil }
        return (message.recipient(device)?.tries ?? 0) >= Self.mostTries
    }

    /// A message that a phone never answers does not hold up all others for ever.
    private static var mostTries: Int { 8 }

    /// The device has it, or shall not have it.
    func done(_ message: HeldMessage, with device: DeviceID) { message.recipients.removeAll { $0.device == device } }

    private func change(_ message: HeldMessage, _ device: DeviceID, _ body: (inout HeldMessage.Recipient) -> Void) {
        for index in message.recipients.indices where message.recipients[index].device == device {
            body(&message.recipients[index])
        }
    }
}
