package import Addressing
package import Bytes
package import Calling
package import ProxyPolicy
package import Registration
package import SIPGrammar
package import SIPTransactions
import Timekeeping

/// All messages that wait for phones, with their recipients, order and limits.
///
/// ``HeldMessages`` sends no messages, and knows no flows. The engine reports events to ``HeldMessages``, and asks it
/// for the next message to send.
package struct HeldMessages: ~Copyable {
    /// The messages for each user, oldest first.
    private var queues: [AddressOfRecord: [HeldMessage]] = [:]
    private var byID: [UInt64: HeldMessage] = [:]
    private var senderBytes: [ByteString: Int] = [:]
    private var commits: [CommitTicket: HeldMessage] = [:]
    package private(set) var bytes = 0
    /// The number of bytes of all messages from untrusted senders.
    private var untrustedBytes = 0
    private var lastID: UInt64
    private var lastCommit: UInt64 = 0
    /// The stored messages from before the restart, kept until the bindings are restored.
    private var stored: [StoredMessage]

    /// Creates the table with the stored messages from before the restart.
    ///
    /// - Parameters:
    ///   - stored: the messages.
    ///   - first: new messages get ids above this id, which keeps the ids of a cluster's nodes apart.
    package init(restoring stored: [StoredMessage] = [], idsAfter first: UInt64 = 0) {
        self.stored = stored
        lastID = max(first, stored.map(\.id).max() ?? 0)
    }

    /// Removes and returns the stored messages from before the restart, oldest first.
    package mutating func takeStored() -> [StoredMessage] { exchange(&stored, with: []).sorted { $0.id < $1.id } }

    package var isEmpty: Bool { byID.isEmpty }
    package var count: Int { byID.count }

    package subscript(id: UInt64) -> HeldMessage? { byID[id] }

    package func queue(of aor: AddressOfRecord) -> [HeldMessage] { queues[aor] ?? [] }

    /// The messages of all users with ids above `id`, oldest first.
    package func page(
        after id: UInt64, limit: Int, where isWanted: (HeldMessage) -> Bool = { _ in true }
    ) -> [HeldMessage] {
        byID.filter { $0.key > id && isWanted($0.value) }.sorted { $0.key < $1.key }.prefix(limit).map(\.value)
    }

    /// The response to a copy of a waiting request; `nil` for a new request.
    ///
    /// A copy of a stored MESSAGE gets 202. The copy of an unstored request that arrives by another path gets 482.
    package func answer(to request: SIPRequest, from sender: ByteString, for aor: AddressOfRecord) -> Status? {
        guard let queue = queues[aor] else { return nil }
        let key = MessageKey(request, from: sender)
        for message in queue where message.key.isMerged(with: key) {
            guard message.keeping == .stored else { return .loopDetected }
            // The copy gets 202 (RFC 3428 section 7), because the message is stored and the restart may have lost the
            // first 202.
            if message.key == key { return Self.accepted }
        }
        return nil
    }

    package static let accepted: Status = 202

    // MARK: Limits (T25.2)

    package enum Refusal {
        /// The user's waiting messages have reached the maximum number or total size.
        case userFull
        /// The sender's share of the limits, or the limit on all messages, is used up.
        case senderFull
    }

    /// The limit that a message of the given size would exceed; `nil` if the message may be stored. An older NOTIFY of
    /// the event `replaced` does not count for the user's limits, because the new NOTIFY replaces it.
    package func refusal(
        of size: Int, from sender: ByteString, _ caller: Caller, to aor: AddressOfRecord,
        replacing replaced: ByteString?,
        _ settings: ProxySettings
    ) -> Refusal? {
        let limits = settings.messages
        let inAll = settings.share(of: limits.totalBytes, ofOne: limits.totalBytes / 16).refusal(
            of: size,
            beside: FairShare.Taken(all: bytes, untrusted: untrustedBytes, own: senderBytes[sender, default: 0]),
            isTrusted: caller.isTrusted)
        if inAll != nil { return .senderFull }
        var count = FairShare.Taken(all: 0, untrusted: 0, own: 0)
        var bytes = count
        for message in queue(of: aor) where replaced == nil || !message.isNotice || message.event != replaced {
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

    package mutating func newID() -> UInt64 {
        lastID &+= 1
        return lastID
    }

    package mutating func add(_ message: HeldMessage) {
        byID[message.id] = message
        queues[message.aor, default: []].append(message)
        count(message.request.count, of: message)
    }

    package mutating func remove(_ message: HeldMessage) {
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

    /// Removes and returns the transaction of the waiting sender; `nil` if the sender has got a response.
    package func takeServer(of message: HeldMessage) -> ServerTransactionID? {
        defer { message.server = nil }
        return message.server
    }

    package func wasDelivered(_ message: HeldMessage) { message.hasBeenDelivered = true }

    package func refused(_ message: HeldMessage, by response: SIPResponse) {
        if message.refusal == nil || response.status.statusClass == 6 { message.refusal = response }
    }

    // MARK: The store

    /// Begins to store the message with the bytes `request`, and returns the ticket of the commit.
    package mutating func commits(_ message: HeldMessage, as request: ByteString) -> CommitTicket {
        lastCommit &+= 1
        let ticket = CommitTicket(lastCommit, of: .messages)
        count(request.count - message.request.count, of: message)
        message.request = request
        message.keeping = .committing
        commits[ticket] = message
        return ticket
    }

    package mutating func committed(_ ticket: CommitTicket, succeeded: Bool) -> HeldMessage? {
        guard let message = commits.removeValue(forKey: ticket) else { return nil }
        message.keeping = succeeded ? .stored : .passing
        return message
    }

    // MARK: Devices

    /// The oldest message that a device has not received yet; `nil` while the daemon sends another message to the
    /// device.
    ///
    /// If `inOrder` is false, because no push wakes the device, the next message does not wait for the responses to
    /// earlier messages.
    package func next(for device: DeviceID, of aor: AddressOfRecord, inOrder: Bool) -> HeldMessage? {
        let next = queue(of: aor).first { message in
            message.recipient(device).map { inOrder || $0.delivery == nil } ?? false
        }
        return next?.recipient(device)?.delivery == nil ? next : nil
    }

    /// The message in flight to a device, with its delivery; `nil` without a message in flight.
    package func delivery(to device: DeviceID, of aor: AddressOfRecord) -> (message: HeldMessage, call: ProxiedRequest)?
    {
        for message in queue(of: aor) {
            if let call = message.recipient(device)?.delivery { return (message, call) }
        }
        return nil
    }

    /// Whether a MESSAGE waits for the device.
    package func hasMessage(for device: DeviceID, of aor: AddressOfRecord) -> Bool {
        queue(of: aor).contains { $0.recipient(device) != nil }
    }

    /// Handles the REGISTER of a device, and returns the changes for the store.
    ///
    /// A device that a push can wake also gets the messages whose devices were all removed.
    package mutating func returned(_ device: DeviceID, of aor: AddressOfRecord, isPush: Bool) -> [MessageChange] {
        guard isPush else { return [] }
        return queue(of: aor).filter(\.isForAnybody).map { message in
            message.recipients = [HeldMessage.Recipient(device: device)]
            return .left(message.id, [device])
        }
    }

    /// Notes that the device sleeps, so that its messages wait.
    package func fellAsleep(_ device: DeviceID, of aor: AddressOfRecord) {
        for message in queue(of: aor) where message.recipient(device) != nil { message.hasWaited = true }
    }

    /// Moves the messages for HTTP-reported devices to a contact of the same user.
    package mutating func takenOver(by contact: DeviceID, of aor: AddressOfRecord, where isReported: (DeviceID) -> Bool)
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

    package func sent(_ message: HeldMessage, to device: DeviceID, as call: ProxiedRequest) {
        change(message, device) {
            $0.delivery = call
            $0.tries += 1
        }
    }

    /// Notes that a delivery did not reach the device; returns whether the message must be given up after too many
    /// tries.
    package func came(back message: HeldMessage, from device: DeviceID) -> Bool {
        change(message, device) { $0.delivery = nil }
        return (message.recipient(device)?.tries ?? 0) >= Self.mostTries
    }

    /// The number of tries after which a message is given up, so that later messages need not wait for it.
    private static var mostTries: Int { 8 }

    /// Removes a device from a message's recipients, because the device got the message or will never get it.
    package func done(_ message: HeldMessage, with device: DeviceID) {
        message.recipients.removeAll { $0.device == device }
    }

    private func change(_ message: HeldMessage, _ device: DeviceID, _ body: (inout HeldMessage.Recipient) -> Void) {
        for index in message.recipients.indices where message.recipients[index].device == device {
            body(&message.recipients[index])
        }
    }
}
