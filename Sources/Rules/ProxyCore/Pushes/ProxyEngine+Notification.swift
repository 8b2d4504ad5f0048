package import Addressing
package import PushDelivery
package import Registration
import SIPGrammar
package import Timekeeping

/// Who shall get a notification.
package enum NotificationRecipient: Hashable, Sendable {
    /// All devices of a user.
    case user(AddressOfRecord)
    case device(DeviceID)
}

/// What became of an order for a notification.
package struct NotificationReceipt: Hashable, Sendable {
    /// Names its pushes, which are the same push on many devices.
    package let code: PushCode
    /// Pushes that are under way.
    package var sent = 0
    /// For each device that gets none, why.
    package var skipped: [TimelineRecord.Omission] = []
    /// Recipients who have no device here.
    package var absent: [NotificationRecipient] = []

    init(_ code: PushCode) { self.code = code }
}

/// Why nobody gets what was ordered.
package enum NotificationRefusal: Error, Hashable, Sendable {
    /// A provider does not take what is to be said; in words.
    case payload(String)
    /// It would take more pushes than there is room for now.
    case noRoom
}

/// Pushes that are no calls: they hold nothing, and nobody waits for them but their sender.
extension ProxyEngine {
    /// An application server orders a notification. It goes to all devices that can get it, or, when one of them could
    /// not take what it says, to none.
    ///
    /// Nothing of it survives the end of the process.
    ///
    /// - Parameters:
    ///   - notification: what to say.
    ///   - recipients: whom to.
    ///   - now: both clocks.
    /// - Returns: who gets it.
    /// - Throws: why nobody does.
    package func notificationOrdered(
        _ notification: PushNotification, for recipients: [NotificationRecipient], now: Moment
    ) throws(NotificationRefusal) -> NotificationReceipt {
        var receipt = NotificationReceipt(ledger.newCode())
        var pushes: [(target: ForkTarget, aor: AddressOfRecord, token: PushToken)] = []
        var omissions: [(target: ForkTarget, aor: AddressOfRecord, TimelineRecord.Omission)] = []
        var seen = Set<DeviceID>()
        for recipient in recipients {
            let (aor, targets) = self.targets(of: recipient, now: now)
            guard let aor, !targets.isEmpty else {
                receipt.absent.append(recipient)
                continue
            }
            for target in targets where seen.insert(target.id).inserted {
                guard let token = target.pushToken else {
                    omissions.append((target, aor, .ordinaryContact))
                    continue
                }
                // The sketch has the highest badge that the push could have, so that its length is not underestimated.
                let badge = ledger.unread.count(of: target.id) + 1
                let sketch = request(
                    notification, receipt.code, PushID(rawValue: 0), to: token, of: target, badge: badge, now: now)
                switch ledger.dispatcher.directory.verdict(on: sketch, now: now.date) {
                case .notCarried: omissions.append((target, aor, .notCarried))
                case .refused(let words): throw .payload(words)
                case .possible where mayNotify(target.id, for: nil, now: now): pushes.append((target, aor, token))
                case .possible: omissions.append((target, aor, .deviceLimit))
                }
            }
        }
        guard pushes.count <= ledger.dispatcher.notificationRoom else { throw .noRoom }
        for push in pushes {
            ledger.limits.notified(push.target.id, for: nil, now: now.instant)
            notify(notification, receipt.code, by: push.token, push.target, of: push.aor, now: now)
        }
        for (target, aor, omission) in omissions {
            ledger.omitted(
                omission, notification, receipt.code, for: target.id, of: aor, now: now, into: &actions)
            receipt.skipped.append(omission)
        }
        receipt.sent = pushes.count
        return receipt
    }

    private func targets(
        of recipient: NotificationRecipient, now: Moment
    ) -> (AddressOfRecord?, [ForkTarget]) {
        switch recipient {
        case .user(let aor): (aor, registrar.bindings.forkTargets(for: aor, now: now.instant))
        case .device(let id):
            (
                registrar.bindings.binding(id)?.aor,
                [registrar.bindings.forkTarget(id, now: now.instant)].compactMap(\.self)
            )
        }
    }

    /// Whether a device may be woken for something that is no call; `nil` stands for an application server.
    func mayNotify(_ device: DeviceID, for caller: Caller?, now: Moment) -> Bool {
        ledger.limits.mayNotify(device, for: caller, now: now.instant)
    }

    private func request(
        _ notification: PushNotification, _ code: PushCode, _ id: PushID, to token: PushToken, of target: ForkTarget,
        badge: Int, now: Moment
    ) -> PushRequest {
        PushRequest(
            id: id, code: code, device: target.id, token: token,
            message: .notification(notification), badge: notification.badge ?? badge,
            // Even a push that no provider shall keep takes some time to be sent.
            deadline: max(notification.expiresAt, now.date + Self.shortestTry))
    }

    private static let shortestTry: Duration = .seconds(30)

    @discardableResult
    func notify(
        _ notification: PushNotification, _ code: PushCode, by token: PushToken, _ target: ForkTarget,
        of aor: AddressOfRecord, as purpose: AskedPush.Purpose = .notification, now: Moment
    ) -> PushID {
        let record = ledger.began(notification, code, for: target.id, of: aor, now: now)
        let id = ledger.begin(AskedPush(purpose, code, device: target.id, aor: aor, record: record))
        let device = target.id
        let badge =
            notification.isInBadge
            ? ledger.unread.asked(code, .other, by: device, at: now.date) : ledger.unread.count(of: device)
        let push = request(notification, code, id, to: token, of: target, badge: badge, now: now)
        ledger.send(push, now: now, into: &actions)
        return id
    }

    // MARK: Ends of calls

    /// The call is over for a phone that has not come: no CANCEL reaches it. Acrobits' apps show the call from the push on, and
    /// are told the end in another; so are other apps whose settings say that they understand it. While the provider has not
    /// answered, nobody knows whether the phone shows the call: then it is told when the provider has taken the push.
    func stoppedWaiting(_ index: Int, of call: Call, now: Moment) {
        let branch = call.fork.branches[index]
        let end = branch.wasWoken || branch.push != nil ? end(of: call, for: branch, now: now) : nil
        ledger.drop(index, of: call, owing: branch.wasWoken ? nil : end, now: now, into: &actions)
        if branch.wasWoken, let end, let device = branch.device, let aor = call.offer?.aor {
            tell(end, to: device, of: aor, now: now)
        }
    }

    /// What the phone is to hear of the call's end, if its app wants a push for it.
    private func end(of call: Call, for branch: ForkBranch, now: Moment) -> EndedCallNotice? {
        guard branch.end != .succeeded, let offer = call.offer, let device = branch.device,
            let token = registrar.bindings.pushToken(of: device), afterEnd(of: token) == .push
        else { return nil }
        var outcome = EndedCallNotice.Outcome.missed
        switch branch.end {
        case .cancelled(.answeredElsewhere): outcome = .answeredElsewhere
        case .cancelled(.declinedElsewhere): outcome = .declinedElsewhere
        case .cancelled, .gaveUp, .failed, .silent, .succeeded, nil: break
        }
        // A phone that took the call and registers without a token may be the very one that was woken.
        guard outcome == .missed || wasTakenByKnownDevice(call.fork) else { return nil }
        guard let incoming = revive(call) else { return nil }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        return EndedCallNotice(IncomingCall(offer, from: caller), outcome)
    }

    /// Tells the phone of the end, if it can still be pushed.
    func tell(_ end: EndedCallNotice, to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant), let token = target.pushToken else {
            return
        }
        let notification = PushNotification(end, expiresAt: now.date + Self.shortestTry)
        let badge = ledger.unread.count(of: device)
        let code = ledger.newCode()
        let id = ledger.begin(AskedPush(.notification, code, device: device, aor: aor, record: nil))
        let push = request(notification, code, id, to: token, of: target, badge: badge, now: now)
        ledger.send(push, now: now, into: &actions)
    }

    /// Whether the phone that ended the call for all others registers with a token.
    private func wasTakenByKnownDevice(_ fork: Fork) -> Bool {
        fork.branches.allSatisfy { branch in
            switch branch.end {
            case .succeeded: break
            case .failed(let status) where status.statusClass == 6: break
            case .failed, .gaveUp, .silent, .cancelled, nil: return true
            }
            return branch.contact == nil && branch.device.flatMap { registrar.bindings.pushToken(of: $0) } != nil
        }
    }
}
