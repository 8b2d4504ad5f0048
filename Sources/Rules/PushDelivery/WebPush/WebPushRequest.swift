import Bytes

/// Builds pushes for the push services of browsers and apps (RFC 8030). The payload, in the app's payload format, is a
/// JSON object that only the device can decrypt. A device without keys gets no payload.
enum WebPushRequest {
    /// The maximum size in bytes of a payload before encryption: the size that services must accept, minus the overhead
    /// of encryption (RFC 8291).
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
            // With this topic, a retry replaces the first try, which the service may have accepted although its answer
            // was lost.
            topic = Self.topic(of: call.callRef)
        case .missedCalls:
            life = context.missedCallsTTL
            urgency = "normal"
            topic = context.push.collapseKey
        case .silent: return .impossible(.noSuitableToken)
        case .notification(let notification):
            // A device without keys cannot get a payload. A device without keys gets silent notifications only, and no
            // end push, which its app would take for a new call.
            guard token.keys != nil || context.isSilentNotification else { return .impossible(.noSuitableToken) }
            life = context.life(of: notification)
            urgency = notification.endedCall != nil ? "high" : notification.isSilent ? "low" : "normal"
            // The end push has the topic of the push for the call, and replaces it.
            topic =
                notification.endedCall.map { Self.topic(of: $0.call.callRef) }
                ?? context.code.description.filter { $0 != "-" }
        }
        var headers = [
            ProviderRequest.Header("ttl", String(life)), ProviderRequest.Header("urgency", urgency),
        ]
        // A topic can have at most 32 characters of base64url (RFC 8030 section 5.4).
        if let topic { headers.append(ProviderRequest.Header("topic", topic)) }
        return .request(ProviderRequest(url: token.url, headers: headers, body: body, protection: protection))
    }

    private static func topic(of call: CallRef) -> String { "call-\(call)" }

    /// The payload before encryption. A list of missed calls is shortened to fit the limit; any other payload may be
    /// too long.
    private static func payload(_ context: PayloadContext, _ profile: PayloadProfile) -> [UInt8] {
        var room = limit
        while true {
            var body: [UInt8] = []
            body.append("{")
            profile.fields(context, room: room).append(membersTo: &body)
            body.append("}")
            guard body.count > limit, room > 0 else { return body }
            // `room` does not count quotes and commas, so the body may be too long. If the body is too long, `room` is
            // reduced until enough calls are omitted.
            room -= max(body.count - limit, leastStep)
        }
    }

    private static let leastStep = 32
}
