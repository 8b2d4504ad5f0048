import Bytes
import JSON

/// A push exactly as ECSS-10 sends it (R12, R24), for gateways that still take FCM's old messages.
enum FCMLegacyRequest {
    static func make(_ context: PayloadContext, _ settings: FCMSettings) -> PushRendering {
        let fields = settings.payload.fields(context, room: FCMRequest.dataLimit)
        let size = fields.size
        guard size <= FCMRequest.dataLimit else { return .impossible(.payloadRefused("\(size) bytes of data")) }
        var body: [UInt8] = []
        body.append("{\"to\":")
        body.append(jsonString: context.push.token.prid)
        body.append(context.isSilentNotification ? ",\"priority\":5" : ",\"priority\":10")
        body.append(",\"data\":{")
        fields.append(membersTo: &body)
        body.append("}")
        switch context.push.message {
        case .incomingCall:
            body.append(",\"time_to_live\":")
            body.append(decimal: context.inviteTTL)
        case .notification(let notification):
            body.append(",\"time_to_live\":")
            body.append(decimal: context.life(of: notification))
        case .missedCalls: break
        case .silent: body.append(",\"dry_run\":true")
        }
        body.append("}")
        return .request(ProviderRequest(url: "\(settings.baseURL)/fcm/send", headers: [.json], body: body))
    }
}
