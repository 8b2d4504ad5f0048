package import Addressing
import LocationService
package import PushDelivery
import PushPlanning
package import Registration
import SIPGrammar
package import Timekeeping

/// The recipient of a notification.
package enum NotificationRecipient: Hashable, Sendable {
    /// All devices of a user.
    case user(AddressOfRecord)
    case device(DeviceID)
}

/// The result of an order for a notification.
package struct NotificationReceipt: Hashable, Sendable {
    /// The code of all pushes of this order, because the same push goes to many devices.
    package let code: PushCode
    /// The number of pushes that were handed to the dispatcher.
    package var sent = 0
    /// The reasons why devices get no push, one for each such device.
    package var skipped: [TimelineRecord.Omission] = []
    /// Recipients who have no device here.
    package var absent: [NotificationRecipient] = []

    init(_ code: PushCode) { self.code = code }
}

/// Why an order for a notification was refused for all its devices.
package enum NotificationRefusal: Error, Hashable, Sendable {
    /// A provider does not accept the content. The text explains why.
    case payload(String)
    /// The order needs more pushes than the queue has room for now.
    case noRoom
}

/// Pushes that announce no call. They hold no request, and only their sender waits for them.
extension ProxyEngine {
    /// An application server orders a notification. It goes to all devices that can get it. If the provider of one
    /// device would refuse the content, no device gets it.
    ///
    /// The order does not survive the end of the process.
    ///
    /// - Parameters:
    ///   - notification: the content.
    ///   - recipients: the users and devices that shall get it.
    ///   - now: both clocks.
    /// - Returns: how many pushes are sent, and who gets none.
    /// - Throws: the reason, if no device gets the notification.
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
                guard !ledger.isPaused(token.provider) else {
                    omissions.append((target, aor, .providerPaused))
                    continue
                }
                // The sketch has the highest badge that the push could have, so that its length is not
                // underestimated.
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
                omission, notification, receipt.code, for: target.id, of: aor, now: now, into: &output.actions)
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

    /// Whether a device may be woken for something that is no call. `caller` is `nil` for an application server.
    func mayNotify(_ device: DeviceID, for caller: Caller?, now: Moment) -> Bool {
        ledger.limits.mayNotify(device, for: caller, now: now.instant)
    }

    func request(
        _ notification: PushNotification, _ code: PushCode, _ id: PushID, to token: PushToken, of target: ForkTarget,
        badge: Int, now: Moment
    ) -> PushRequest {
        PushRequest(
            id: id, code: code, device: target.id, token: token,
            message: .notification(notification), badge: notification.badge ?? badge,
            // A push that the provider must not store still needs some time to be sent.
            deadline: max(notification.expiresAt, now.date + Self.shortestTry))
    }

    static let shortestTry: Duration = .seconds(30)

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
        ledger.send(push, now: now, into: &output.actions)
        return id
    }
}
