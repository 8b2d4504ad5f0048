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

/// Delivers MESSAGE and other requests outside dialogs, except INVITE, to the phones of local users, and wakes sleeping
/// phones (RFC 8599 section 5.6.2).
///
/// An awake phone gets its messages immediately, one after the other. One push wakes a sleeping phone for all its
/// messages, and the phone gets the messages in order after its REGISTER. The sender of a MESSAGE gets the phone's
/// response, 202 when the message is stored, or 480 before the sender's transaction times out (RFC 4320).
extension ProxyEngine {
    /// Sends a MESSAGE or similar request to the user's awake phones, and keeps the request for the user's sleeping
    /// phones.
    func messageReceived(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller,
        isNotice: Bool = false, now: Moment
    ) {
        let request = incoming.request
        let aor = aor.compacted()
        let awake = Set(
            targets.filter { $0.isFresh && hop(to: $0).isOpen && !wakes.isAsleep($0.id) }.map(\.id))
        let recipients = targets.filter { $0.canBeWoken || awake.contains($0.id) }
        guard !recipients.isEmpty else { return refuse(incoming, .temporarilyUnavailable, now: now) }
        let account = account(of: incoming, to: aor)
        if let answer = messages.answer(to: request, from: account, for: aor) {
            return refuse(incoming, answer, now: now)
        }
        guard admits(incoming, from: caller, to: aor, now: now) else { return }
        if let refusal = messages.refusal(
            of: request.frame.bytes.count, from: account, caller, to: aor,
            replacing: isNotice ? MessageWords.event(of: request) : nil, settings)
        {
            return refuseMessage(incoming, refusal, to: aor, now: now)
        }
        guard let incoming = startTransaction(incoming, now: now), let server = incoming.server else { return }
        sendTrying(incoming, now: now)
        let life = request.expires.map { Duration.seconds(Int64($0)) } ?? settings.messages.maximumAge
        let message = HeldMessage(
            id: messages.newID(), aor: aor, request, sender: account, caller: caller,
            source: incoming.flow, server: server, recipients: recipients.map(\.id),
            wakes: isNotice
                ? MessageWords.isUrgent(request) || settings.messages.wakes(for: .notify)
                : MessageWords.wakesPhones(request),
            // A `sips:` MESSAGE is not stored, because the phone may register again on a flow without TLS.
            mayBeStored: (settings.messages.store && request.method == .message || isNotice)
                && request.uri.scheme != .sips && life > .zero && recipients.contains { $0.canBeWoken },
            expiresAt: now.date + min(life, settings.messages.maximumAge),
            holdUntil: now.instant + max(min(life, settings.messages.wait), Self.patience), now: now.date)
        messages.add(message)
        for target in recipients where !awake.contains(target.id) {
            fellAsleep(target.id, of: aor)
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

    /// Sends a NOTIFY of a PBX to the awake phones. If a user's phones sleep, the PBX gets 200, and the latest NOTIFY
    /// of each event package is stored until a phone registers.
    func noticeReceived(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        let event = MessageWords.event(of: incoming.request)
        for old in messages.queue(of: aor.compacted()) where old.event == event && old.isNotice {
            // An outdated NOTIFY is answered with 200, so that the PBX does not send the outdated NOTIFY again.
            answer(old, .ok, [], now: now)
            if old.keeping == .passing { forget(old, now: now) }
        }
        messageReceived(incoming, to: aor, targets, caller: caller, isNotice: true, now: now)
    }

    /// Whether a phone on UDP may be unreachable, because its last REGISTER is old and no message has come from the
    /// phone lately. A phone that may be unreachable gets the request and a push at the same time.
    private func mayBeGone(_ target: ForkTarget, now: Moment) -> Bool {
        target.canBeWoken && !target.flow.transport.isReliable && target.path.isEmpty && !isTrusted(target.flow)
            && now.date - target.registeredAt >= settings.call.skipPushWithin && !network.flows.isLive(target, now: now)
    }

    /// The sender whose rate limits apply to a MESSAGE (T25.2): the caller that a PBX names, the authenticated user, or
    /// the source address.
    private func account(of incoming: IncomingRequest, to aor: AddressOfRecord) -> ByteString {
        if incoming.isTrusted {
            let name = CallerIdentity(incoming.request, format: .uri).number
            // Equal sender names of different tenants count separately, because a PBX can write any sender name into a
            // MESSAGE.
            return tenant(of: aor.host) == nil ? name : ByteString("\(aor.host) \(name)")
        }
        if let user = incoming.sender { return ByteString("\(user)") }
        return ByteString("\(incoming.flow.remote.address.source)")
    }

    private func refuseMessage(
        _ incoming: IncomingRequest, _ refusal: HeldMessages.Refusal, to aor: AddressOfRecord, now: Moment
    ) {
        log.warning(
            "a MESSAGE was refused, because too many stored messages already wait for delivery",
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

    /// Handles the timer of a waiting message: the phones are silent, the sender needs a response, or the stored
    /// message has expired.
    func messageDue(_ id: UInt64, now: Moment) {
        guard let message = messages[id] else { return }
        _ = message.stopsWaiting()
        switch message.keeping {
        case .committing: break
        case .stored: expire(message, now: now)
        case .passing where now.instant < message.holdUntil: phonesAreSilent(message, now: now)
        case .passing: giveUp(message, now: now)
        }
    }

    /// Treats phones that have not answered a message as asleep. A phone gets more time to answer if the message was
    /// just sent on another flow of the phone.
    private func phonesAreSilent(_ message: HeldMessage, now: Moment) {
        // The daemon stops trying the phone's other flows ten seconds before the message's deadline, so that a push can
        // still wake the phone.
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
            fellAsleep(recipient.device, of: message.aor)
            watch(target)
        }
        guard let next else { return waitForPhones(message, now: now) }
        wakePhones(for: message, now: now)
        if messages[message.id] != nil { arm(message, at: next) }
    }

    private static let wakingTakes: Duration = .seconds(10)

    /// Ends a message that no phone has accepted in time: the sender gets a phone's refusal, or 480.
    func giveUp(_ message: HeldMessage, now: Moment) {
        let devices = message.recipients.map(\.device)
        if message.server != nil { output.counters.count(.messageGivenUp) }
        answerRefusal(of: message, now: now)
        forget(message, now: now)
        for device in devices { sendNext(to: device, of: message.aor, now: now) }
    }

    // MARK: The store

    /// Handles the commit of a stored message: after a success the sender gets 202, and after a failure 503.
    func messageCommitted(_ ticket: CommitTicket, succeeded: Bool, now: Moment) {
        guard let message = messages.committed(ticket, succeeded: succeeded) else { return }
        guard messages[message.id] != nil else { return answerRefusal(of: message, now: now) }
        guard succeeded else {
            answer(message, .serviceUnavailable, [Self.retryAfter(seconds: 10)], now: now)
            return forget(message, now: now)
        }
        output.counters.count(.messageStored)
        log.info(
            "a message was stored until the recipient's phone registers",
            [
                .aor: .described(message.aor), .callID: .bytes(message.key.callID),
                .count: .number(messages.queue(of: message.aor).count),
            ])
        answer(message, message.isNotice ? .ok : HeldMessages.accepted, [], now: now)
        dropNotices(olderThan: message, now: now)
        arm(message, at: now.instant + (message.expiresAt - now.date))
    }

    /// Restores stored messages, oldest first. After a restart, a message younger than one minute causes a new push,
    /// because the restart may have lost the first push.
    func restore(_ rows: [StoredMessage], now: Moment) {
        var restored: [HeldMessage] = []
        for row in rows where messages[row.id] == nil {
            guard row.expiresAt > now.date, let request = functions.reread(row.request) else {
                act(.record([.message(.delete(row.id))]))
                continue
            }
            let caller = caller(of: row, request)
            let message = HeldMessage(restoring: row, request, from: caller, now: now)
            messages.add(message)
            restored.append(message)
            // An outdated NOTIFY can be in the store if the daemon ended before it removed the older of two NOTIFYs.
            dropNotices(olderThan: message, now: now)
            arm(message, at: now.instant + (message.expiresAt - now.date))
            for device in row.devices {
                guard let target = registrar.bindings.forkTarget(device, now: now.instant) else {
                    lose(message, device, now: now)
                    continue
                }
                if target.isFresh, hop(to: target).isOpen { continue }
                fellAsleep(device, of: row.aor)
                watch(target)
                if now.date - row.receivedAt < .seconds(60) { wake(device, for: message, now: now) }
            }
        }
        for message in restored where messages[message.id] != nil {
            for recipient in message.recipients { sendNext(to: recipient.device, of: message.aor, now: now) }
        }
    }

    /// The caller of a message that was stored before the restart. The caller's rate limits apply to the message.
    private func caller(of row: StoredMessage, _ request: SIPRequest) -> Caller {
        guard !isTrusted(row.source), let user = AddressOfRecord(uriText: ByteString("sip:\(row.sender)")),
            row.sender.contains(UInt8(ascii: "@"))
        else { return Caller(of: request, on: row.source, isTrusted: isTrusted(row.source)) }
        return Caller(user: user)
    }
}

// MARK: - To the phones

extension ProxyEngine {
    /// Sends a device its oldest waiting message, unless another message to the device is in flight.
    private func sendNext(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard !wakes.isAsleep(device),
            let target = registrar.bindings.forkTarget(device, now: now.instant), hop(to: target).isOpen,
            let message = messages.next(for: device, of: aor, inOrder: target.canBeWoken),
            let incoming = revive(message)
        else { return }
        let call = calls.begin(incoming, nil, branches: [ForkBranch(device: device)])
        call.turned(into: .delivery(MessageDelivery(message: message.id, device: device, triedAt: now.instant)))
        messages.sent(message, to: device, as: call)
        sendToDevice(incoming, for: 0, of: call, to: target, now: now)
    }

    /// Handles the end of a message's delivery: the phone accepted or refused the message, or must get the message
    /// again later.
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
        case .cancel, .stopWaiting, .hangUp, .forward, .startNextGroup: break
        }
    }

    /// Whether a phone's refusal of a message with the given status is temporary, so that a later delivery can succeed.
    private static func isForNow(_ status: Status) -> Bool {
        switch status.code {
        case 408, 430, 480, 500, 502, 503, 504: true
        default: false
        }
    }

    private func delivered(_ message: HeldMessage, _ response: SIPResponse, to device: DeviceID, now: Moment) {
        if message.hasWaited {
            output.counters.count(.messageDelivered)
            log.info(
                "a stored message was delivered to the recipient's phone",
                [
                    .aor: .described(message.aor), .callID: .bytes(message.key.callID), .device: .described(device),
                    .duration: .duration(now.date - message.receivedAt),
                ])
        }
        messages.wasDelivered(message)
        if response.status.isSuccess {
            relayToSender(response, of: message, now: now)
        } else {
            answer(message, .ok, [], now: now)
        }
        close(message, for: device, now: now)
        sendNext(to: device, of: message.aor, now: now)
    }

    private func refused(_ message: HeldMessage, _ response: SIPResponse, by device: DeviceID, now: Moment) {
        messages.refused(message, by: response)
        // A 6xx from one phone refuses the message for all phones of the user (RFC 3261 section 16.7).
        if response.status.statusClass == 6, message.keeping == .passing { answerRefusal(of: message, now: now) }
        close(message, for: device, now: now)
        sendNext(to: device, of: message.aor, now: now)
    }

    /// Handles the failed delivery of a message to a phone. The daemon treats the phone as asleep, and sends the
    /// message again later.
    private func cameBack(_ message: HeldMessage, from device: DeviceID, isSilent: Bool, now: Moment) {
        let isEnough = messages.came(back: message, from: device)
        guard !isEnough, let target = registrar.bindings.forkTarget(device, now: now.instant), target.canBeWoken
        else {
            if isEnough {
                log.warning(
                    "a stored message was dropped, because the recipient's phone has never responded to the MESSAGE",
                    [.aor: .described(message.aor), .device: .described(device)])
            }
            close(message, for: device, now: now)
            return sendNext(to: device, of: message.aor, now: now)
        }
        fellAsleep(device, of: message.aor)
        if isSilent { watch(target) }
        if message.keeping == .passing {
            waitForPhones(message, now: now)
        } else {
            wake(device, for: message, now: now)
        }
    }

    // MARK: Devices that come and go

    /// Sends a device its waiting messages, because the device has registered, or has sent a message on its flow.
    func messagesReturn(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant), hop(to: target).isOpen else {
            return
        }
        let wasAsleep = wakes.messagesGo(to: device)
        var changes = messages.returned(device, of: aor, isPush: target.canBeWoken)
        if !target.canBeWoken, registrar.bindings.hasReportedDevice(aor) {
            // A phone that registers without push token gets the messages of a device that an app reported over HTTP,
            // because both may be one phone.
            changes += messages.takenOver(by: device, of: aor) { reported in
                registrar.bindings.forkTarget(reported, now: now.instant)?.isReachable == false
            }
            for target in registrar.bindings.forkTargets(for: aor, now: now.instant) { letGo(target.id, of: aor) }
        }
        if !changes.isEmpty { act(.record(changes.map { .message($0) })) }
        if let (message, call) = messages.delivery(to: device, of: aor) {
            guard wasAsleep || call.fork.branches.first?.routeHash != target.routeHash else { return }
            stop(call, now: now)
            _ = messages.came(back: message, from: device)
        }
        sendNext(to: device, of: aor, now: now)
    }

    /// Handles the removal of a device: a message for only this device is refused, or waits for the next device that
    /// registers.
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
        letGo(device, of: message.aor)
        act(.record([.message(.left(message.id, message.recipients.map(\.device)))]))
    }
}
