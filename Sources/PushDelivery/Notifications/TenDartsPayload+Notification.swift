import Bytes

/// Notifications as the 10darts platform words them, whose own kind of push they are.
extension TenDartsPayload {
    /// Android's `data`. A silent notification differs only by `sil`.
    static func fields(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [PayloadField] {
        TextLimits.fitting(room, titles: 1, size: \.size) { limits in
            let fields = [
                PayloadField("id", context.code.description),
                PayloadField("message", notification.text, atMost: limits.text),
                PayloadField("title", notification.title, atMost: limits.title),
                PayloadField("badge", Int64(context.push.badge)),
            ]
            return fields + destination(notification) + image(notification) + flags(notification)
                + notification.customField
        }
    }

    static func apple(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [UInt8] {
        let id = PayloadField("id", context.code.description)
        guard !notification.isSilent else {
            var body: [UInt8] = []
            body.append("{\"aps\":{\"content-available\":1},")
            ([id] + destination(notification) + flags(notification)).append(membersTo: &body)
            body.append("}")
            return body
        }
        return TextLimits.fitting(room, titles: 2, size: \.count) { limits in
            var body: [UInt8] = []
            body.append("{\"aps\":{")
            body.append(alert: notification, limits)
            body.append(",\"badge\":")
            body.append(decimal: context.push.badge)
            body.append("},")
            var members = [id, PayloadField("title", notification.title, atMost: limits.title)]
            members += destination(notification) + image(notification) + flags(notification)
            (members + notification.customField).append(membersTo: &body)
            body.append("}")
            return body
        }
    }

    /// Where in the app it leads; these members are there even when they are empty.
    private static func destination(_ notification: PushNotification) -> [PayloadField] {
        [
            PayloadField("dst", notification.destinationType, atMost: .max),
            PayloadField("dsc", notification.destinationContent, atMost: .max),
        ]
    }

    private static func flags(_ notification: PushNotification) -> [PayloadField] {
        flags(confirms: notification.wantsConfirmation, isSilent: notification.isSilent)
    }

    private static func image(_ notification: PushNotification) -> [PayloadField] {
        notification.imageURL.isEmpty ? [] : [PayloadField("img", notification.imageURL, atMost: .max)]
    }
}
