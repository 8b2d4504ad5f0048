import Bytes
import Timekeeping

/// Builds the HTTP requests that push to the phones of one app through Apple's push service.
final class APNsRequest: Sendable {
    /// The maximum payload size in bytes: `voipLimit` for VoIP pushes, and `limit` for all other pushes.
    private static let voipLimit = 5120
    private static let limit = 4096

    private let settings: APNsSettings
    private let topics: APNsTopics
    /// The beginning of every push URL: the server's URL and `/3/device/`.
    private let urlStart: [UInt8]

    init(_ settings: APNsSettings, _ provider: PushProvider) {
        self.settings = settings
        topics = APNsTopics(settings.topics)
        urlStart = Array("\(settings.url(of: provider))/3/device/".utf8)
    }

    func make(_ context: PayloadContext) -> PushRendering {
        let token: APNsToken
        do throws(APNsToken.Problem) {
            token = try APNsToken(context.push.token, withoutService: settings.tokenService)
        } catch {
            return .impossible(.noSuitableToken)
        }
        guard let topic = topics.topic(of: APNsTopics.Name(context.push.token.param))?.string else {
            return .impossible(.payloadRefused("no topic: pn-param names no topic of push.apns.topics"))
        }
        switch context.push.message {
        case .incomingCall(let call):
            let expiration = String(context.push.deadline.seconds)
            if let voip = token.voip {
                return request(to: voip, topic + ".voip", .voip, expiration, context)
            }
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            return request(
                to: remote, topic, settings.remotePushType.type, expiration, context,
                collapseKey: key(of: call))
        case .missedCalls:
            // A PushKit token cannot get a list of missed calls, because iOS ends an app whose VoIP push reports no
            // call.
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let expiration = String((context.now + context.settings.missedCallsTTL).seconds)
            return request(to: remote, topic, settings.remotePushType.type, expiration, context)
        case .silent:
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let expiration = String(context.push.deadline.seconds)
            return request(to: remote, topic, .background, expiration, context, body: Self.silentBody)
        case .notification(let notification):
            // A PushKit token cannot get a notification, because iOS ends an app whose VoIP push reports no call.
            guard let remote = token.remote else { return .impossible(.noSuitableToken) }
            let expiration = String(context.expiration(of: notification))
            if let end = notification.endedCall, settings.payload.tellsEnds {
                return request(
                    to: remote, topic, settings.remotePushType.type, expiration, context,
                    collapseKey: key(of: end.call))
            }
            return request(
                to: remote, topic, notification.isSilent ? .background : .alert, expiration, context,
                // With the push code as collapse key, a retry replaces the first try. Apple may have accepted the first
                // try although its answer was lost.
                collapseKey: context.code.description)
        }
    }

    /// The collapse key by which a push about a call's end replaces the push for the call; `nil` if the payload format
    /// has no push about a call's end.
    private func key(of call: IncomingCall) -> String? {
        settings.payload.tellsEnds ? "call-\(call.callRef)" : nil
    }

    private static let silentBody = Array("{\"aps\":{\"content-available\":1}}".utf8)

    private func request(
        to token: ByteString, _ topic: String, _ type: ApplePushType, _ expiration: String, _ context: PayloadContext,
        body: [UInt8]? = nil, collapseKey: String? = nil
    ) -> PushRendering {
        let room = type == .voip ? Self.voipLimit : Self.limit
        let body = body ?? settings.payload.apple(context, type, badge: settings.badgeType, room: room)
        guard body.count <= room else { return .impossible(.payloadRefused("a payload of \(body.count) bytes")) }
        var url = urlStart
        url.reserveCapacity(url.count + token.count)
        url.append(percentEncoding: token)
        var headers = [
            ProviderRequest.Header("apns-topic", topic), ProviderRequest.Header("apns-push-type", type.rawValue),
            // Apple refuses background pushes with a priority other than 5.
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
