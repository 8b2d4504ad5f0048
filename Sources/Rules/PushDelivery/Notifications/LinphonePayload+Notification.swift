import Bytes

/// Builds notifications for Linphone apps in Flexisip's format. The application server's object is in `custom-payload`,
/// or for Apple in `customPayload`.
extension LinphonePayload {
    static func fields(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [PayloadField] {
        TextLimits.fitting(room, titles: 1, size: \.size) { limits in
            var fields = [
                PayloadField("uuid", context.code.description), PayloadField("send-time", sendTime(context.now)),
                PayloadField("custom-payload", json: custom(notification)), PayloadField("type", notification.type),
            ]
            if !notification.isSilent {
                fields.append(PayloadField("title", notification.title, atMost: limits.title))
                fields.append(PayloadField("message", notification.text, atMost: limits.text))
            }
            return fields + notification.leads + confirmation(notification) + sender(of: notification)
        }
    }

    static func apple(_ notification: PushNotification, _ context: PayloadContext, room: Int) -> [UInt8] {
        TextLimits.fitting(room, titles: 1, size: \.count) { limits in
            var body: [UInt8] = []
            if notification.isSilent {
                body.append("{\"aps\":{\"content-available\":1},")
            } else {
                body.append("{\"aps\":{")
                body.append(alert: notification, limits)
                body.append(",\"mutable-content\":1,\"badge\":")
                body.append(decimal: context.push.badge)
                body.append("},")
            }
            let members = [
                PayloadField("type", notification.type), PayloadField("uuid", context.code.description),
                PayloadField("send-time", sendTime(context.now)),
                PayloadField("pn_ttl", context.life(of: notification)),
            ]
            (members + notification.leads + confirmation(notification) + sender(of: notification))
                .append(membersTo: &body)
            body.append(",\"customPayload\":")
            body.append(contentsOf: custom(notification))
            body.append("}")
            return body
        }
    }

    /// The members by which the app finds the MESSAGE that waits for the phone, as Flexisip writes them.
    private static func sender(of notification: PushNotification) -> [PayloadField] {
        guard !notification.callID.isEmpty else { return [] }
        return [
            PayloadField("call-id", notification.callID, atMost: callIDLimit),
            PayloadField("from-uri", notification.mediated?.userName ?? .empty, atMost: uriLimit),
            PayloadField("display-name", notification.mediated?.userDisplayName ?? .empty, atMost: nameLimit),
            PayloadField("loc-key", "IM_MSG"), PayloadField("loc-args", notification.title, atMost: nameLimit),
        ]
    }

    private static func custom(_ notification: PushNotification) -> [UInt8] {
        notification.custom?.json ?? Array("{}".utf8)
    }

    /// The member `cfm`, which demands that the app reports the arrival of the push. Flexisip does not send `cfm`, so
    /// `cfm` is added only if the application server asks for a report.
    private static func confirmation(_ notification: PushNotification) -> [PayloadField] {
        notification.wantsConfirmation ? [PayloadField("cfm", 1)] : []
    }
}
