import Addressing
import Bytes
import Calling
import LocationService
import Messaging
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import Waking

/// Handles messages that wait for phones: timers, pushes, storage, and responses to the senders.
extension ProxyEngine {
    /// Wakes the recipient's phones for a message. If the setting `messages.store` is off, a message waits in memory
    /// until a phone registers.
    func waitForPhones(_ message: HeldMessage, now: Moment) {
        wakePhones(for: message, now: now)
        guard messages[message.id] != nil, message.keeping == .passing else { return }
        if message.mayBeStored { store(message, now: now) } else { arm(message, at: message.holdUntil) }
    }

    func wakePhones(for message: HeldMessage, now: Moment) {
        for recipient in message.recipients where wakes.isAsleep(recipient.device) {
            wake(recipient.device, for: message, now: now)
        }
    }

    func arm(_ message: HeldMessage, at instant: Instant) {
        if let deadline = message.deadline { output.timers.cancel(deadline) }
        message.waits(until: output.timers.schedule(.messageDue(message.id), at: instant))
    }

    /// Notes that a device sleeps, so that the device gets no message before it registers or sends something on its
    /// flow.
    func fellAsleep(_ device: DeviceID, of aor: AddressOfRecord) {
        wakes.fellAsleep(device)
        messages.fellAsleep(device, of: aor)
    }

    /// Stops treating a device as asleep if no message waits for the device.
    func letGo(_ device: DeviceID, of aor: AddressOfRecord) {
        if !wakes.isEmpty, !messages.hasMessage(for: device, of: aor) { wakes.messagesGo(to: device) }
    }

    // MARK: Waking

    /// Sends one push for all messages that wait for the device, if the rate limit of notifications allows a push
    /// (T25.3).
    func wake(_ device: DeviceID, for message: HeldMessage, now: Moment) {
        guard message.wakes, let target = registrar.bindings.forkTarget(device, now: now.instant),
            let token = target.pushToken, message.recipient(device) != nil, wakes.takesWake(device)
        else { return }
        guard mayNotify(device, for: message.caller, now: now),
            message.caller.isTrusted || ledger.admits(message.caller, now: now.instant),
            let request = functions.reread(message.request)
        else {
            wakes.wakeFailed(device)
            log.info(
                "the daemon sends no push for a message, because the phone has reached its limit of pushes",
                [.aor: .described(message.aor), .device: .described(device)])
            return
        }
        ledger.notified(device, for: message.caller, now: now.instant)
        let isKept = message.mayBeStored || message.keeping != .passing
        let words = MessageWords.notification(
            of: request, settings.messages, until: isKept ? message.expiresAt : now.date + settings.messages.wait)
        notify(words, ledger.newCode(), by: token, target, of: message.aor, as: .message, now: now)
    }

    /// Handles the result of a push for waiting messages. If the push failed, messages to the device that are not
    /// stored fail too.
    func messagePushFinished(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        guard !outcome.isAccepted else { return }
        wakes.wakeFailed(push.device)
        for message in messages.queue(of: push.aor) where message.keeping == .passing {
            guard let recipient = message.recipient(push.device), recipient.delivery == nil else { continue }
            close(message, for: push.device, now: now)
        }
    }

    // MARK: The store

    /// Orders the store to keep a message; the sender gets 202 when the message is on disk.
    func store(_ message: HeldMessage, now: Moment) {
        if let deadline = message.stopsWaiting() { output.timers.cancel(deadline) }
        let isDated = functions.reread(message.request)?.frame.contains(.date) ?? true
        let ticket = messages.commits(
            message, as: isDated ? message.request : Self.dated(message.request, message.receivedAt))
        act(.commit([.message(.insert(message.row))], ticket))
    }

    /// Adds a Date to a MESSAGE, so that a phone that gets the MESSAGE days later can show its sending time (RFC 3428
    /// section 9).
    private static func dated(_ request: ByteString, _ date: UnixTime) -> ByteString {
        guard let end = request.firstIndex(of: UInt8(ascii: "\n")) else { return request }
        var out: [UInt8] = []
        out.reserveCapacity(request.count + 40)
        out.append(request[0..<end + 1])
        out.append("Date: ")
        out.append(contentsOf: date.civil.headerText.utf8)
        out.append("\r\n")
        out.append(request[end + 1..<request.count])
        return ByteString(out)
    }

    // MARK: Answers to the sender

    func answer(_ message: HeldMessage, _ status: Status, _ fields: [AddedField], now: Moment) {
        guard let server = messages.takeServer(of: message), let incoming = revive(message) else { return }
        respond(server, status, incoming.response(status, toTag: sip.tags.next(), fields: fields), now: now)
    }

    /// Answers the sender of a message with a phone's refusal, or with 480 if no phone has refused the message.
    func answerRefusal(of message: HeldMessage, now: Moment) {
        if let refusal = message.refusal {
            relayToSender(refusal, of: message, now: now)
        } else {
            answer(message, .temporarilyUnavailable, [], now: now)
        }
    }

    func relayToSender(_ response: SIPResponse, of message: HeldMessage, now: Moment) {
        guard response.viaCount > 1 else { return answer(message, response.status, [], now: now) }
        guard let server = messages.takeServer(of: message) else { return }
        respond(server, response.status, response.withoutTopVia(adding: []), now: now)
    }

    func revive(_ message: HeldMessage) -> IncomingRequest? {
        functions.reread(message.request).map {
            IncomingRequest($0, on: message.source, isTrusted: isTrusted(message.source))
        }
    }

    // MARK: The end

    /// Ends a message for one device, because the device has got the message or will never get it.
    func close(_ message: HeldMessage, for device: DeviceID, now: Moment) {
        messages.done(message, with: device)
        letGo(device, of: message.aor)
        if message.recipients.isEmpty {
            if message.keeping != .committing { answerRefusal(of: message, now: now) }
            if message.hasBeenDelivered { dropNotices(olderThan: message, now: now) }
            if message.keeping != .passing { act(.record([.message(.delete(message.id))])) }
            forget(message, now: now)
        } else if message.keeping != .passing {
            act(.record([.message(.left(message.id, message.recipients.map(\.device)))]))
        }
    }

    func expire(_ message: HeldMessage, now: Moment) {
        output.counters.count(.messageExpired)
        log.info(
            "a stored message expired before the recipient's phone registered",
            [.aor: .described(message.aor), .callID: .bytes(message.key.callID)])
        act(.record([.message(.delete(message.id))]))
        forget(message, now: now)
    }

    /// Deletes stored NOTIFYs that are older than `notice` and have the same event; `notice` itself is stored or
    /// delivered. An older NOTIFY is deleted only after the newer NOTIFY is stored, so that a crash loses no NOTIFY.
    func dropNotices(olderThan notice: HeldMessage, now: Moment) {
        guard notice.isNotice else { return }
        for old in messages.queue(of: notice.aor)
        where old.isNotice && old.event == notice.event && old.id < notice.id && old.keeping != .passing {
            act(.record([.message(.delete(old.id))]))
            forget(old, now: now)
        }
    }

    /// Removes a message, and ends all its deliveries.
    func forget(_ message: HeldMessage, now: Moment) {
        for recipient in message.recipients { recipient.delivery.map { stop($0, now: now) } }
        if let deadline = message.stopsWaiting() { output.timers.cancel(deadline) }
        messages.remove(message)
        for recipient in message.recipients { letGo(recipient.device, of: message.aor) }
    }

    /// Ends the transaction that delivers a message: the request is no longer retransmitted, and a late response is
    /// ignored.
    func stop(_ call: ProxiedRequest, now: Moment) {
        call.turned(into: .plain)
        if let client = call.fork.branches.first?.client {
            sip.legs.end(client)
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
        }
        update(call, now: now) { $0.silenced(0) }
    }
}
