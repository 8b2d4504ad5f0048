import Bytes

/// Builds pushes for the push services of browsers and apps (RFC 8030). The payload of a web push is a JSON object in
/// the app's payload format, which only the device can decrypt. A web push to a device without keys has no payload.
enum WebPushRequest {
    /// The maximum size in bytes of a payload before encryption: the size that services must accept, minus the overhead
    /// of encryption (RFC 8291).
    private static let limit = 3993

    static func make(_ context: PayloadContext, _ settings: WebPushSettings) -> PushRendering {
        guard let token = WebPushToken(context.push.token, allowedAt: settings.hosts) else {
            return .impossible(.noSuitableToken)
        }
        return make(context, to: token, settings.payload)
    }

    /// Builds the request to a subscription whose host the settings allow.
    static func make(_ context: PayloadContext, to token: WebPushToken, _ profile: PayloadProfile) -> PushRendering {
        var body: [UInt8] = []
        var protection = ProviderRequest.Protection.none
        if let keys = token.keys {
            body = payload(context, profile)
            guard body.count <= limit else { return .impossible(.payloadRefused("\(body.count) bytes of payload")) }
            protection = .webPush(publicKey: keys.publicKey, authSecret: keys.authSecret)
        }
        let life: Int64
        let urgency: String
        let topic: String?
        switch context.push.message {
        case .incomingCall(let call):
            life = context.inviteTTL
            urgency = "high"
            // All tries of a push have the call's topic. Therefore a second try replaces the first one if the service
            // accepted the first and its answer was lost.
            topic = Self.topic(of: call.callRef)
        case .missedCalls:
            life = context.missedCallsTTL
            urgency = "normal"
            topic = context.push.collapseKey
        case .silent: return .impossible(.noSuitableToken)
        case .notification(let notification):
            // A web push to a device without keys cannot have a payload. A device without keys gets silent
            // notifications only, because its app would take a push about a call's end for a new call.
            guard token.keys != nil || context.isSilentNotification else { return .impossible(.noSuitableToken) }
            life = context.life(of: notification)
            urgency = notification.endedCall != nil ? "high" : notification.isSilent ? "low" : "normal"
            // The end push has the topic of the call's push, and replaces that push.
            topic =
                notification.endedCall.map { Self.topic(of: $0.call.callRef) }
                ?? context.code.description.filter { $0 != "-" }
        }
        var headers = [
            ProviderRequest.Header("ttl", String(life)), ProviderRequest.Header("urgency", urgency),
        ]
        // The topic of a web push can have at most 32 characters of base64url (RFC 8030 section 5.4).
        if let topic { headers.append(ProviderRequest.Header("topic", topic)) }
        return .request(ProviderRequest(url: token.url, headers: headers, body: body, protection: protection))
    }

    private static func topic(of call: CallRef) -> String { "call-\(call)" }

    /// The payload of a web push before encryption. A list of missed calls is shortened to fit the limit; any other
    /// payload may be too long.
    private static func payload(_ context: PayloadContext, _ profile: PayloadProfile) -> [UInt8] {
        var room = limit
        while true {
            var body: [UInt8] = []
            body.append("{")
            profile.fields(context, room: room).append(membersTo: &body)
            body.append("}")
            guard body.count > limit, room > 0 else { return body }
            // The body may still be too long, because `room` does not count quotes and commas. If the body is too long,
            // `room` is reduced until enough calls are omitted.
            room -= max(body.count - limit, leastStep)
        }
    }

    private static let leastStep = 32
}
