import Bytes

/// Writes pushes for the push services of browsers and apps (RFC 8030). The payload of any profile is a JSON object
/// that only the device can read. A device without keys gets no payload.
enum WebPushRequest {
    /// The maximum size in bytes of a payload before encryption: the minimum that services must accept, less the
    /// overhead of encryption (RFC 8291).
    private static let limit = 3993

    static func make(_ context: PayloadContext, _ settings: WebPushSettings) -> PushRendering {
        guard let token = WebPushToken(context.push.token, allowedAt: settings.hosts) else {
            return .impossible(.noSuitableToken)
        }
        var body: [UInt8] = []
        var protection = ProviderRequest.Protection.none
        if let keys = token.keys {
            body = payload(context, settings.payload)
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
            // By its topic, a retry replaces the first try, which the service may have accepted although its answer was
            // lost.
            topic = Self.topic(of: call.callRef)
        case .missedCalls:
            life = context.missedCallsTTL
            urgency = "normal"
            topic = context.push.collapseKey
        case .silent: return .impossible(.noSuitableToken)
        case .notification(let notification):
            // A device without keys cannot get the text of a notification, so it gets only silent wake-ups. The end of
            // a call is not sent to it either, because its app would take the push for a new call.
            guard token.keys != nil || context.isSilentNotification else { return .impossible(.noSuitableToken) }
            life = context.life(of: notification)
            urgency = notification.endedCall != nil ? "high" : notification.isSilent ? "low" : "normal"
            // The push about the end of a call replaces the push about the call.
            topic =
                notification.endedCall.map { Self.topic(of: $0.call.callRef) }
                ?? context.code.description.filter { $0 != "-" }
        }
        var headers = [
            ProviderRequest.Header("ttl", String(life)), ProviderRequest.Header("urgency", urgency),
        ]
        // A topic has at most 32 characters of base64url (RFC 8030 section 5.4).
        if let topic { headers.append(ProviderRequest.Header("topic", topic)) }
        return .request(ProviderRequest(url: token.url, headers: headers, body: body, protection: protection))
    }

    private static func topic(of call: CallRef) -> String { "call-\(call)" }

    /// The payload. A list of missed calls is cut to the limit; any other payload may exceed the limit.
    private static func payload(_ context: PayloadContext, _ profile: PayloadProfile) -> [UInt8] {
        var room = limit
        while true {
            var body: [UInt8] = []
            body.append("{")
            profile.fields(context, room: room).append(membersTo: &body)
            body.append("}")
            guard body.count > limit, room > 0 else { return body }
            // `room` counts no quotes and commas, so the body may be too long. `room` is reduced until enough calls are
            // left out.
            room -= max(body.count - limit, leastStep)
        }
    }

    private static let leastStep = 32
}
