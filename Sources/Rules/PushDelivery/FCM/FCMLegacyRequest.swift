import Bytes
import JSON

/// Builds an app's pushes exactly as in ECSS-10 (R12, R24), for gateways that still accept FCM's legacy messages.
final class FCMLegacyRequest: Sendable {
    private let url: String
    private let profile: PayloadProfile

    init(_ settings: FCMSettings) {
        url = "\(settings.baseURL)/fcm/send"
        profile = settings.profile
    }

    func make(_ context: PayloadContext) -> PushRendering {
        var body = FCMRequest.emptyBody(for: context)
        body.append("{\"to\":")
        body.append(jsonString: context.push.token.prid)
        body.append(context.isSilentNotification ? ",\"priority\":5" : ",\"priority\":10")
        body.append(",\"data\":{")
        let size = profile.fields(context, room: FCMRequest.dataLimit).append(membersTo: &body)
        guard size <= FCMRequest.dataLimit else { return .impossible(.payloadRefused("\(size) bytes of data")) }
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
        return .request(ProviderRequest(url: url, headers: ProviderRequest.Header.onlyJSON, body: body))
    }
}
