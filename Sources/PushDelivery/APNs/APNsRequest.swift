import Bytes
import Timekeeping

/// A push as APNs wants it.
enum APNsRequest {
    /// How many bytes a payload may have, in VoIP pushes and in all others.
    private static let voipLimit = 5120
    private static let limit = 4096

    static func make(_ context: PayloadContext, _ settings: APNsSettings) -> PushRendering {
        let token: APNsToken
        do throws(APNsToken.Problem) {
            token = try APNsToken(context.push.token, withoutService: settings.tokenService)
        } catch {
            return .impossible(.noSuitableToken)
        }
        guard let topic = topic(of: token, settings) else {
            return .impossible(.payloadRefused("no topic: neither pn-param nor push.apns.topics names a bundle"))
        }
        switch context.push.message {
        case .incomingCall(let call):
            let expiration = String(context.push.deadline.seconds)
            if let voip = token.voip {
                return request(to: voip, topic + ".voip", .voip, expiration, context, settings)
            }
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            return request(
                to: remote, topic, settings.remotePushType.type, expiration, context, settings,
                collapseKey: key(of: call, settings))
        case .missedCalls:
            // Apple ends apps whose VoIP push reports no call, so a PushKit token is no way to tell of missed ones.
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let expiration = String((context.now + context.settings.missedCallsTTL).seconds)
            return request(to: remote, topic, settings.remotePushType.type, expiration, context, settings)
        case .silent:
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let expiration = String(context.push.deadline.seconds)
            return request(to: remote, topic, .background, expiration, context, settings, body: silentBody)
        case .notification(let notification):
            // A PushKit token will not do here either, since this is no call.
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let expiration = String(context.expiration(of: notification))
            if let end = notification.endedCall, settings.payload.tellsEnds {
                return request(
                    to: remote, topic, settings.remotePushType.type, expiration, context, settings,
                    collapseKey: key(of: end.call, settings))
            }
            return request(
                to: remote, topic, notification.isSilent ? .background : .alert, expiration, context, settings,
                // A second try replaces the first, which Apple may have accepted without our knowing.
                collapseKey: context.code.description)
        }
    }

    /// The key by which the text for the end of a call replaces the text for the call, in profiles that have both.
    private static func key(of call: IncomingCall, _ settings: APNsSettings) -> String? {
        settings.payload.tellsEnds ? "call-\(call.callRef)" : nil
    }

    private static let silentBody = Array("{\"aps\":{\"content-available\":1}}".utf8)

    /// The bundle that the device names if it is one of ours, otherwise our first (A28).
    private static func topic(of token: APNsToken, _ settings: APNsSettings) -> String? {
        guard let bundle = token.bundle?.string else { return settings.topics.first }
        return settings.topics.isEmpty || settings.topics.contains(bundle) ? bundle : settings.topics.first
    }

    private static func request(
        to token: ByteString, _ topic: String, _ type: ApplePushType, _ expiration: String, _ context: PayloadContext,
        _ settings: APNsSettings, body: [UInt8]? = nil, collapseKey: String? = nil
    ) -> PushRendering {
        let room = type == .voip ? voipLimit : limit
        let body = body ?? settings.payload.apple(context, type, badge: settings.badgeType, room: room)
        guard body.count <= room else { return .impossible(.payloadRefused("a payload of \(body.count) bytes")) }
        var url = Array(settings.url(of: context.push.token.provider).utf8)
        url.reserveCapacity(url.count + 10 + token.count)
        url.append("/3/device/")
        url.append(percentEncoding: token)
        var headers = [
            ProviderRequest.Header("apns-topic", topic), ProviderRequest.Header("apns-push-type", type.rawValue),
            // Apple refuses background pushes with another priority than 5.
            ProviderRequest.Header("apns-priority", type == .background ? "5" : "10"),
            ProviderRequest.Header("apns-expiration", expiration),
            ProviderRequest.Header("apns-id", context.code.description),
        ]
        if let key = collapseKey ?? context.push.collapseKey {
            headers.append(ProviderRequest.Header("apns-collapse-id", key))
        }
        return .request(
            ProviderRequest(url: String(decoding: url, as: UTF8.self), headers: headers, body: body))
    }
}

extension RemotePushType {
    fileprivate var type: ApplePushType {
        switch self {
        case .alert: .alert
        case .background: .background
        }
    }
}
