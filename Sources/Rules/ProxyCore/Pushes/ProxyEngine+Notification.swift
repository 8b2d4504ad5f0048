package import Addressing
import LocationService
package import PushDelivery
import PushPlanning
package import Registration
import SIPGrammar
package import Timekeeping

/// A user or device to which an application server sends a notification.
package enum NotificationRecipient: Hashable, Sendable {
    /// All devices of a user.
    case user(AddressOfRecord)
    case device(DeviceID)
}

/// The result of a notification that an application server has ordered.
package struct NotificationReceipt: Hashable, Sendable {
    /// The code of the notification's pushes. All devices get the same text, so all pushes have the same code.
    package let code: PushCode
    /// The number of pushes that the daemon sends for the notification.
    package var sent = 0
    /// For each device that gets no push of the notification, the reason.
    package var skipped: [TimelineRecord.Omission] = []
    /// The recipients of the notification that have no device registered at this daemon.
    package var absent: [NotificationRecipient] = []

    init(_ code: PushCode) { self.code = code }
}

/// Why a notification of an application server was refused for all recipients.
package enum NotificationRefusal: Error, Hashable, Sendable {
    /// A push provider does not accept the content of the notification; the text says why.
    case payload(String)
    /// The push queue has no room for all pushes of the notification.
    case noRoom
}

/// Sends notifications: pushes that announce no call.
extension ProxyEngine {
    /// Sends an application server's notification to all recipients that can get a push.
    ///
    /// If the push provider of one device would refuse the content, no device gets the notification, and the method
    /// throws the reason. Notifications that are not sent yet are lost at a restart of the daemon.
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
                // The check of the size uses the highest possible badge, so that no push is longer than the checked
                // push.
                let badge = ledger.unread.count(of: target.id) + 1
                let sketch = request(notification, receipt.code, to: token, of: target, badge: badge, now: now)
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
            ledger.notified(push.target.id, for: nil, now: now.instant)
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

    /// Whether the rate limits allow a push to a device, if the push is not about a call. The parameter `caller` is
    /// `nil` if no SIP request causes the push.
    func mayNotify(_ device: DeviceID, for caller: Caller?, now: Moment) -> Bool {
        ledger.mayNotify(device, for: caller, now: now.instant)
    }

    func request(
        _ notification: PushNotification, _ code: PushCode, to token: PushToken, of target: ForkTarget, badge: Int,
        now: Moment
    ) -> PushRequest {
        PushRequest(
            code: code, device: target.id, token: token,
            message: .notification(notification), badge: notification.badge ?? badge,
            // The daemon tries to send a push for at least 30 seconds, even if the provider must not store the push for
            // later delivery.
            deadline: max(notification.expiresAt, now.date + Self.shortestTry))
    }

    static let shortestTry: Duration = .seconds(30)

    func notify(
        _ notification: PushNotification, _ code: PushCode, by token: PushToken, _ target: ForkTarget,
        of aor: AddressOfRecord, as purpose: AskedPush.Purpose = .notification, now: Moment
    ) {
        let record = ledger.began(notification, code, for: target.id, of: aor, now: now)
        let device = target.id
        let badge =
            notification.isInBadge
            ? ledger.becameUnread(code, .other, by: device, at: now.date) : ledger.unread.count(of: device)
        let request = request(notification, code, to: token, of: target, badge: badge, now: now)
        let push = AskedPush(purpose, code, device: device, aor: aor, record: record)
        ledger.send(push, request, now: now, into: &output.actions)
    }
}
