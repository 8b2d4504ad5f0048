import Bytes
import JSON

/// Builds notifications in the payload format of the 10darts platform.
extension TenDartsPayload {
    /// The members of the object `data` for Android (FCM). A silent notification has the same members as a shown
    /// notification, and `sil` is 1.
    static func fields(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [PayloadField] {
        naming(context, room: room, size: \.size) { device in
            fields(notification, context, device, room: room)
        }
    }

    private static func fields(
        _ notification: PushNotification, _ context: PayloadContext, _ device: ByteString?, room: Int
    ) -> [PayloadField] {
        TextLimits.fitting(room, titles: 1, size: \.size) { limits in
            let fields = [
                PayloadField("id", context.code.description),
                PayloadField("message", notification.text, atMost: limits.text),
                PayloadField("title", notification.title, atMost: limits.title),
                PayloadField("badge", Int64(context.push.badge)),
            ]
            return fields + destination(notification) + image(notification) + flags(notification)
                + custom(notification, context, device)
        }
    }

    static func apple(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [UInt8] {
        let id = PayloadField("id", context.code.description)
        guard !notification.isSilent else {
            var body: [UInt8] = []
            body.append("{\"aps\":{\"content-available\":1},")
            var members = [id] + destination(notification) + flags(notification)
            // A silent push to an Apple device never contains the device's code.
            if notification.endedCall != nil { members += custom(notification, context, nil) }
            members.append(membersTo: &body)
            body.append("}")
            return body
        }
        return naming(context, room: room, size: \.count) { device in
            apple(notification, context, device, room: room)
        }
    }

    private static func apple(
        _ notification: PushNotification, _ context: PayloadContext, _ device: ByteString?, room: Int
    ) -> [UInt8] {
        let id = PayloadField("id", context.code.description)
        return TextLimits.fitting(room, titles: 2, size: \.count) { limits in
            var body: [UInt8] = []
            body.append("{\"aps\":{")
            body.append(alert: notification, limits)
            body.append(",\"badge\":")
            body.append(decimal: context.push.badge)
            body.append("},")
            var members = [id, PayloadField("title", notification.title, atMost: limits.title)]
            members += destination(notification) + image(notification) + flags(notification)
            (members + custom(notification, context, device)).append(membersTo: &body)
            body.append("}")
            return body
        }
    }

    /// Builds a payload with the code that names the device in the app's reports. The device's code is omitted if the
    /// payload would be too long with it.
    private static func naming<Payload>(
        _ context: PayloadContext, room: Int, size: (Payload) -> Int, _ write: (ByteString?) -> Payload
    ) -> Payload {
        let whole = write(context.deviceCode)
        return size(whole) <= room || context.deviceCode == nil ? whole : write(nil)
    }

    /// The member `ctm`: the application server's object for the app. The device's code is added as `device`, unless
    /// the application server's object has a member `device`.
    private static func custom(
        _ notification: PushNotification, _ context: PayloadContext, _ device: ByteString?
    ) -> [PayloadField] {
        if notification.endedCall != nil { return [PayloadField("ctm", json: tie(context, device: device))] }
        guard let device, notification.custom?.namesDevice != true else { return notification.customField }
        var json: [UInt8] = notification.custom.map { Array($0.json.dropLast()) } ?? Array("{".utf8)
        if json.count > 1 { json.append(",") }
        json.append("\"device\":")
        json.append(jsonString: device)
        json.append("}")
        return [PayloadField("ctm", json: json)]
    }

    /// The members `dst` and `dsc` for the page in the app that the notification opens; empty members are present too.
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
