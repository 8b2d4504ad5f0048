import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Requests outside dialogs, other than calls, on their way to our users' phones, awake or not (RFC 8599 section 5.6.2).
///
/// A phone that can be reached gets them at once, one after the other. One that sleeps, or says nothing, is woken by one push
/// for all of them, and gets them in their order when it is back. The sender hears what a phone answered, or 480 before its
/// own time is over (RFC 4320), or 202 when the message is stored.
extension ProxyEngine {
    /// A request for one of our users comes.
    func messageReceived(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        let request = incoming.request
        let aor = aor.compacted()
        let awake = Set(
            targets.filter { $0.isFresh && isAwake($0) && !messages.isAsleep($0.id, of: aor) }.map(\.id))
        let recipients = targets.filter { $0.canBeWoken || awake.contains($0.id) }
        guard !recipients.isEmpty else { return refuse(incoming, .temporarilyUnavailable, now: now) }
        let account = Self.account(of: incoming)
        if let answer = messages.answer(to: request, from: account, for: aor) {
            return refuse(incoming, answer, now: now)
        }
        guard admits(incoming, from: caller, to: aor, now: now) else { return }
        if let refusal = messages.refusal(
            of: request.frame.bytes.count, from: account, caller, to: aor, settings)
        {
            return refuseMessage(incoming, refusal, to: aor, now: now)
        }
        guard let incoming = begun(incoming, now: now), let server = incoming.server else { return }
        sendTrying(incoming, now: now)
        let life = request.expires.map { Duration.seconds(Int64($0)) } ?? settings.messages.maximumAge
        let message = HeldMessage(
            id: messages.newID(), aor: aor, request, sender: account, caller: caller,
            source: incoming.flow, server: server, recipients: recipients.map(\.id),
            wakes: MessageWords.wakesPhones(request),
            // What asks for protected hops must not wait for a phone whose way here is not known yet.
            mayBeStored: settings.messages.store && request.method == .message && request.uri.scheme != .sips
                && life > .zero && recipients.contains { $0.canBeWoken },
            expiresAt: now.date + min(life, settings.messages.maximumAge),
            holdUntil: now.instant + max(min(life, settings.messages.wait), Self.patience), now: now.date)
        messages.add(message)
        for target in recipients where !awake.contains(target.id) {
            messages.fellAsleep(target.id, of: aor)
            watch(target)
        }
        for target in recipients where awake.contains(target.id) {
            sendNext(to: target.id, of: aor, now: now)
            if mayBeGone(target, now: now), messages[message.id] != nil { wake(target.id, for: message, now: now) }
        }
        guard messages[message.id] != nil else { return }
        if awake.count == recipients.count {
            arm(message, at: min(now.instant + Self.patience, message.holdUntil))
        } else {
            waitForPhones(message, now: now)
        }
    }

    /// A fresh contact on UDP says nothing of its phone: it is woken beside the try, unless it was here a moment ago.
    private func mayBeGone(_ target: ForkTarget, now: Moment) -> Bool {
        target.canBeWoken && !target.flow.transport.isReliable && target.path.isEmpty && !isTrusted(target.flow)
            && now.date - target.registeredAt >= settings.call.skipPushWithin && !isLive(target, now: now)
    }

    /// Whom a request counts for (T25.2), as the store has it. The PBX answers for its callers, and says who they are.
    private static func account(of incoming: IncomingRequest) -> ByteString {
        if incoming.isTrusted { return CallerIdentity(incoming.request, format: .uri).number }
        if let user = incoming.sender { return ByteString("\(user)") }
        return ByteString("\(incoming.flow.remote.address.source)")
    }

    private func refuseMessage(
        _ incoming: IncomingRequest, _ refusal: HeldMessages.Refusal, to aor: AddressOfRecord, now: Moment
    ) {
        log.warning(
            "too many messages wait, one is refused",
            [
                .aor: .described(aor), .caller: .bytes(incoming.request.from.uri.text),
                .source: .described(incoming.flow.remote),
            ])
        switch refusal {
        case .userFull: refuse(incoming, .temporarilyUnavailable, now: now)
        case .senderFull: refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(seconds: 60)], now: now)
        }
    }

    // MARK: Waiting

    /// Some phone sleeps: it is woken, and the message is stored, or waits for it.
    private func waitForPhones(_ message: HeldMessage, now: Moment) {
        wakePhones(for: message, now: now)
        guard messages[message.id] != nil, message.keeping == .passing else { return }
        if message.mayBeStored { store(message, now: now) } else { arm(message, at: message.holdUntil) }
    }

    private func wakePhones(for message: HeldMessage, now: Moment) {
        for recipient in message.recipients where messages.isAsleep(recipient.device, of: message.aor) {
            wake(recipient.device, for: message, now: now)
        }
    }

    private func arm(_ message: HeldMessage, at instant: Instant) {
        if let deadline = message.deadline { timers.cancel(deadline) }
        message.deadline = timers.schedule(.messageDue(message.id), at: instant)
    }

    /// The time of a message has come: for a phone that says nothing, for its sender, or for its row.
    func messageDue(_ id: UInt64, now: Moment) {
        guard let message = messages[id] else { return }
        message.deadline = nil
        switch message.keeping {
        case .committing: break
        case .stored: expire(message, now: now)
        case .passing where now.instant < message.holdUntil: phonesAreSilent(message, now: now)
        case .passing: giveUp(message, now: now)
        }
    }

    /// Phones that could be reached have not answered: they are thought asleep, but for those that have just been tried by
    /// another of their flows.
    private func phonesAreSilent(_ message: HeldMessage, now: Moment) {
        // Somebody who is woken needs time to come.
        let spare = message.holdUntil - now.instant - Self.wakingTakes
        var next: Instant?
        for recipient in message.recipients {
            guard recipient.delivery?.fork.branches.first?.wasHeard != true,
                let target = registrar.bindings.forkTarget(recipient.device, now: now.instant),
                target.canBeWoken
            else { continue }
            if let tried = messages.delivery(to: recipient.device, of: message.aor)?.call.delivery?.triedAt,
                tried + Self.patience > now.instant, spare > .zero
            {
                next = min(next ?? now.instant + spare, tried + Self.patience)
                continue
            }
            messages.fellAsleep(recipient.device, of: message.aor)
            watch(target)
        }
        guard let next else { return waitForPhones(message, now: now) }
        wakePhones(for: message, now: now)
        if messages[message.id] != nil { arm(message, at: next) }
    }

    private static let wakingTakes: Duration = .seconds(10)

    /// No phone has taken it in time.
    private func giveUp(_ message: HeldMessage, now: Moment) {
        let devices = message.recipients.map(\.device)
        if message.server != nil { counters.count(.messageGivenUp) }
        answerRefusal(of: message, now: now)
        forget(message, now: now)
        for device in devices { sendNext(to: device, of: message.aor, now: now) }
    }

    /// An operator takes it away.
    func dismiss(_ message: HeldMessage, now: Moment) { giveUp(message, now: now) }

    private func expire(_ message: HeldMessage, now: Moment) {
        counters.count(.messageExpired)
        log.info(
            "message expired",
            [.aor: .described(message.aor), .callID: .bytes(message.key.callID)])
        act(.record([.message(.delete(message.id))]))
        forget(message, now: now)
    }

    /// Nothing is sent of it any more.
    private func forget(_ message: HeldMessage, now: Moment) {
        for recipient in message.recipients { recipient.delivery.map { stop($0, now: now) } }
        if let deadline = message.deadline { timers.cancel(deadline) }
        message.deadline = nil
        messages.remove(message)
    }

    /// The request is not repeated any more, and its answer is of no interest.
    func stop(_ call: Call, now: Moment) {
        call.matter = .plain
        if let client = call.fork.branches.first?.client {
            legs.end(client)
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
        }
        change(call, now: now) { $0.silenced(0) }
    }

    // MARK: The phone is woken

    /// One push for all that waits for the phone, within what notifications may have (T25.3).
    private func wake(_ device: DeviceID, for message: HeldMessage, now: Moment) {
        guard message.wakes, let target = registrar.bindings.forkTarget(device, now: now.instant),
            let token = target.pushToken, messages.takesWake(device, of: message.aor)
        else { return }
        guard mayNotify(device, for: message.caller, now: now),
            message.caller.isTrusted || ledger.limits.caller.admit(message.caller, now: now.instant),
            let request = functions.reread(message.request)
        else {
            messages.wakeFailed(device, of: message.aor)
            log.info(
                "phone is not woken for a message, there were too many pushes",
                [.aor: .described(message.aor), .device: .described(device)])
            return
        }
        ledger.limits.notified(device, for: message.caller, now: now.instant)
        let isKept = message.mayBeStored || message.keeping != .passing
        let words = MessageWords.notification(
            of: request, settings.messages, until: isKept ? message.expiresAt : now.date + settings.messages.wait)
        notify(words, ledger.newCode(), by: token, target, of: message.aor, as: .message, now: now)
    }

    /// The provider's last word on a push for messages.
    func messagePushFinished(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        guard !outcome.isAccepted else { return }
        messages.wakeFailed(push.device, of: push.aor)
        for message in messages.queue(of: push.aor) where message.keeping == .passing {
            guard let recipient = message.recipient(push.device), recipient.delivery == nil else { continue }
            close(message, for: push.device, now: now)
        }
    }

    // MARK: The store

    /// Stores it; its sender gets 202 when it is on the disk.
    private func store(_ message: HeldMessage, now: Moment) {
        if let deadline = message.deadline { timers.cancel(deadline) }
        message.deadline = nil
        let isDated = functions.reread(message.request)?.frame.contains(.date) ?? true
        let ticket = messages.commits(
            message, as: isDated ? message.request : Self.dated(message.request, message.receivedAt))
        act(.commit([.message(.insert(message.row))], ticket))
    }

    /// With a Date, so that a phone that gets it days later can say when it was sent (RFC 3428 section 9).
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

    /// The store has a message, or could not take it.
    func messageCommitted(_ ticket: CommitTicket, succeeded: Bool, now: Moment) {
        guard let message = messages.committed(ticket, succeeded: succeeded) else { return }
        guard messages[message.id] != nil else { return answerRefusal(of: message, now: now) }
        guard succeeded else {
            answer(message, .serviceUnavailable, [Self.retryAfter(seconds: 10)], now: now)
            return forget(message, now: now)
        }
        counters.count(.messageStored)
        log.info(
            "message stored",
            [
                .aor: .described(message.aor), .callID: .bytes(message.key.callID),
                .count: .number(messages.queue(of: message.aor).count),
            ])
        answer(message, HeldMessages.accepted, [], now: now)
        arm(message, at: now.instant + (message.expiresAt - now.date))
    }

    /// What was stored waits again after a start. Phones whose push may have been lost with the last run are woken.
    func restoreMessages(now: Moment) {
        for row in messages.takeStored() {
            guard row.expiresAt > now.date, let request = functions.reread(row.request) else {
                act(.record([.message(.delete(row.id))]))
                continue
            }
            let caller = caller(of: row, request)
            let message = HeldMessage(restoring: row, request, from: caller, now: now)
            messages.add(message)
            arm(message, at: now.instant + (message.expiresAt - now.date))
            for device in row.devices {
                guard let target = registrar.bindings.forkTarget(device, now: now.instant) else {
                    lose(message, device, now: now)
                    continue
                }
                if target.isFresh, isAwake(target) { continue }
                messages.fellAsleep(device, of: row.aor)
                watch(target)
                if now.date - row.receivedAt < .seconds(60) { wake(device, for: message, now: now) }
            }
        }
        for message in messages.page(after: 0, limit: .max) {
            for recipient in message.recipients { sendNext(to: recipient.device, of: message.aor, now: now) }
        }
    }

    /// Who answers for what an earlier run has stored.
    private func caller(of row: StoredMessage, _ request: SIPRequest) -> Caller {
        guard !isTrusted(row.source), let user = AddressOfRecord(uriText: ByteString("sip:\(row.sender)")),
            row.sender.contains(UInt8(ascii: "@"))
        else { return caller(of: request, on: row.source, isTrusted: isTrusted(row.source)) }
        return Caller(user: user)
    }

    // MARK: Answers

    private func answer(_ message: HeldMessage, _ status: Status, _ fields: [AddedField], now: Moment) {
        guard let server = messages.takeServer(of: message), let incoming = revive(message) else { return }
        respond(server, status, incoming.response(status, toTag: tags.next(), fields: fields), now: now)
    }

    /// What a phone has said, or 480.
    private func answerRefusal(of message: HeldMessage, now: Moment) {
        if let refusal = message.refusal {
            relay(refusal, of: message, now: now)
        } else {
            answer(message, .temporarilyUnavailable, [], now: now)
        }
    }

    private func relay(_ response: SIPResponse, of message: HeldMessage, now: Moment) {
        guard response.viaCount > 1 else { return answer(message, response.status, [], now: now) }
        guard let server = messages.takeServer(of: message) else { return }
        respond(server, response.status, response.withoutTopVia(adding: []), now: now)
    }

    private func revive(_ message: HeldMessage) -> IncomingRequest? {
        functions.reread(message.request).map {
            IncomingRequest($0, on: message.source, isTrusted: isTrusted(message.source))
        }
    }
}

// MARK: - To the phones

extension ProxyEngine {
    /// Sends a device the oldest message that it has not got, unless one is on its way there.
    private func sendNext(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant), isAwake(target),
            let message = messages.next(for: device, of: aor, inOrder: target.canBeWoken),
            let incoming = revive(message)
        else { return }
        let call = calls.begin(incoming, nil, branches: [ForkBranch(device: device)])
        call.matter = .delivery(MessageDelivery(message: message.id, device: device, triedAt: now.instant))
        messages.sent(message, to: device, as: call)
        sendToDevice(incoming, for: 0, of: call, to: target, now: now)
    }

    /// What became of a delivery.
    func deliveryEnded(_ ended: EndedDelivery, now: Moment) {
        let (delivery, call, order) = (ended.delivery, ended.call, ended.order)
        guard let message = messages[delivery.message], let recipient = message.recipient(delivery.device),
            recipient.delivery === call
        else { return }
        switch order {
        case .relay(let response) where response.status.isProvisional: break
        case .relay(let response), .relayChallenge(let response, _):
            let status = response.status
            if status.isSuccess || status == .loopDetected && recipient.tries > 1 {
                delivered(message, response, to: delivery.device, now: now)
            } else if Self.isForNow(status) {
                cameBack(message, from: delivery.device, isSilent: false, now: now)
            } else {
                refused(message, response, by: delivery.device, now: now)
            }
        case .respond, .respondInstead, .giveUp: cameBack(message, from: delivery.device, isSilent: true, now: now)
        case .cancel, .stopWaiting, .hangUp: break
        }
    }

    /// The phone, or an edge before it, may take it later.
    private static func isForNow(_ status: Status) -> Bool {
        switch status.code {
        case 408, 430, 480, 500, 502, 503, 504: true
        default: false
        }
    }

    private func delivered(_ message: HeldMessage, _ response: SIPResponse, to device: DeviceID, now: Moment) {
        if message.hasWaited {
            counters.count(.messageDelivered)
            log.info(
                "message delivered",
                [
                    .aor: .described(message.aor), .callID: .bytes(message.key.callID), .device: .described(device),
                    .duration: .duration(now.date - message.receivedAt),
                ])
        }
        messages.wasDelivered(message)
        if response.status.isSuccess {
            relay(response, of: message, now: now)
        } else {
            answer(message, .ok, [], now: now)
        }
        close(message, for: device, now: now)
        sendNext(to: device, of: message.aor, now: now)
    }

    private func refused(_ message: HeldMessage, _ response: SIPResponse, by device: DeviceID, now: Moment) {
        messages.refused(message, by: response)
        // A phone may decline for all of them (RFC 3261 section 16.7).
        if response.status.statusClass == 6, message.keeping == .passing { answerRefusal(of: message, now: now) }
        close(message, for: device, now: now)
        sendNext(to: device, of: message.aor, now: now)
    }

    /// It did not get there: the phone sleeps after all, or is gone.
    private func cameBack(_ message: HeldMessage, from device: DeviceID, isSilent: Bool, now: Moment) {
        let isEnough = messages.came(back: message, from: device)
        guard !isEnough, let target = registrar.bindings.forkTarget(device, now: now.instant), target.canBeWoken
        else {
            if isEnough {
                log.warning(
                    "message is given up, its phone never answers it",
                    [.aor: .described(message.aor), .device: .described(device)])
            }
            close(message, for: device, now: now)
            return sendNext(to: device, of: message.aor, now: now)
        }
        messages.fellAsleep(device, of: message.aor)
        if isSilent { watch(target) }
        if message.keeping == .passing {
            waitForPhones(message, now: now)
        } else {
            wake(device, for: message, now: now)
        }
    }

    /// The device has the message, or will not get it.
    private func close(_ message: HeldMessage, for device: DeviceID, now: Moment) {
        messages.done(message, with: device)
        if message.recipients.isEmpty {
            if message.keeping != .committing { answerRefusal(of: message, now: now) }
            if message.keeping != .passing { act(.record([.message(.delete(message.id))])) }
            forget(message, now: now)
        } else if message.keeping != .passing {
            act(.record([.message(.left(message.id, message.recipients.map(\.device)))]))
        }
    }

    // MARK: Devices that come and go

    /// The device has registered, or shows life where it is registered: it gets what waits for it.
    func messagesReturn(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant), isAwake(target) else { return }
        if calls.devices.calls(of: device).isEmpty { calls.devices.unwatch(device) }
        let wasAsleep = messages.isAsleep(device, of: aor)
        var changes = messages.returned(device, of: aor, isPush: target.canBeWoken)
        if !target.canBeWoken, registrar.bindings.hasReportedDevice(aor) {
            // Its user's phone was only reported with its token, and registers without.
            changes += messages.takenOver(by: device, of: aor) { reported in
                registrar.bindings.forkTarget(reported, now: now.instant)?.isReachable == false
            }
        }
        if !changes.isEmpty { act(.record(changes.map { .message($0) })) }
        if let (message, call) = messages.delivery(to: device, of: aor) {
            guard wasAsleep || call.fork.branches.first?.way != target.way else { return }
            stop(call, now: now)
            _ = messages.came(back: message, from: device)
        }
        sendNext(to: device, of: aor, now: now)
    }

    /// The device is gone. What only it should have is refused, or kept for the next one that comes.
    func messagesLose(_ device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        for message in messages.queue(of: aor) { lose(message, device, now: now) }
    }

    private func lose(_ message: HeldMessage, _ device: DeviceID, now: Moment) {
        guard let recipient = message.recipient(device) else { return }
        recipient.delivery.map { stop($0, now: now) }
        guard message.keeping == .stored, !message.hasBeenDelivered else {
            return close(message, for: device, now: now)
        }
        messages.done(message, with: device)
        act(.record([.message(.left(message.id, message.recipients.map(\.device)))]))
    }
}

/// A fork that carries a message to a phone has ordered something.
struct EndedDelivery {
    let delivery: MessageDelivery
    let call: Call
    let order: Fork.Order

    init(_ delivery: MessageDelivery, of call: Call, _ order: Fork.Order) {
        self.delivery = delivery
        self.call = call
        self.order = order
    }
}

/// What a request that nobody waits for here is: a message on its way to one device. A class, since every call has a place
/// for one.
final class MessageDelivery {
    let message: UInt64
    let device: DeviceID
    /// When it was sent, by the flow of the device that is tried now.
    var triedAt: Instant

    init(message: UInt64, device: DeviceID, triedAt: Instant) {
        self.message = message
        self.device = device
        self.triedAt = triedAt
    }
}
