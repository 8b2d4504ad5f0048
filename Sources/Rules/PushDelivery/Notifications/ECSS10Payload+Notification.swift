import Bytes
import Timekeeping

/// Builds notifications for apps with ECSS-10 payloads. ECSS-10 defines no notifications, so a notification has
/// ECSS-10's `type` and `date` and the members of the 10darts format.
extension ECSS10Payload {
    static func fields(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [PayloadField] {
        TextLimits.fitting(room, titles: 1, size: \.size) { limits in
            var fields = head(notification, context)
            if !notification.isSilent {
                fields.append(PayloadField("title", notification.title, atMost: limits.title))
                fields.append(PayloadField("message", notification.text, atMost: limits.text))
                fields.append(PayloadField("badge", Int64(context.push.badge)))
            }
            return fields + tail(notification)
        }
    }

    static func apple(
        _ notification: PushNotification, _ context: PayloadContext, badge: BadgeType, room: Int
    ) -> [UInt8] {
        let badge = Badge(value: context.push.badge, type: badge)
        return TextLimits.fitting(room, titles: 1, size: \.count) { limits in
            var body: [UInt8] = []
            body.append("{\"aps\":{")
            if notification.isSilent {
                // Apple allows only `content-available` in the `aps` of a silent push.
                body.append("\"content-available\":1")
            } else {
                body.append(alert: notification, limits)
                // With `mutable-content`, the app can fetch the image before iOS shows the notification.
                if !notification.imageURL.isEmpty { body.append(",\"mutable-content\":1") }
                body.append(",")
                badge.append(to: &body)
            }
            body.append("},\"acme\":{")
            if !notification.isSilent {
                badge.append(to: &body)
                body.append(",")
            }
            (head(notification, context) + tail(notification)).append(membersTo: &body)
            body.append("}}")
            return body
        }
    }

    private static func head(_ notification: PushNotification, _ context: PayloadContext) -> [PayloadField] {
        [
            PayloadField("type", notification.type), PayloadField("date", context.now.seconds),
            PayloadField("id", context.code.description),
        ]
    }

    private static func tail(_ notification: PushNotification) -> [PayloadField] {
        notification.leads + [PayloadField("cfm", notification.wantsConfirmation ? 1 : 0)] + notification.customField
    }
}
