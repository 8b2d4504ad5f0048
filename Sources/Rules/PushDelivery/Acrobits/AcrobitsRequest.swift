import Bytes

/// Builds pushes for Acrobits' push server. Each push is one JSON object, which Acrobits' push server converts for
/// Apple or Google.
enum AcrobitsRequest {
    private static let textLimit = 512
    private static let callIDLimit = 1024

    static func make(_ context: PayloadContext, _ settings: AcrobitsSettings) -> PushRendering {
        guard let token = try? AcrobitsToken(context.push.token) else { return .impossible(.noSuitableToken) }
        let texts = context.settings.texts
        let address: AcrobitsToken.Address?
        let verb: String
        var members: [PayloadField] = []
        switch context.push.message {
        case .incomingCall(let call):
            address = token.calls
            verb = "NotifyIncomingCall"
            // The app recognises the INVITE of the push by the Call-ID.
            members.append(PayloadField("Id", call.callID, atMost: callIDLimit))
            let user = call.isNameless ? ByteString("anonymous") : call.callerURI
            members.append(PayloadField("UserName", user, atMost: textLimit))
            members.append(
                PayloadField("UserDisplayName", call.shownCaller(anonymous: texts.anonymous), atMost: textLimit))
        case .missedCalls(let calls):
            // Missed calls are sent as a text message, because Acrobits' verb for missed calls would end a ringing
            // call.
            address = token.other
            verb = "NotifyGenericTextMessage"
            let message = Array("\(texts.missedCalls): ".utf8) + CallList.callers(calls, atMost: textLimit).array
            members.append(PayloadField("Message", ByteString(message), atMost: 2 * textLimit))
            members.append(PayloadField("Badge", Int64(context.push.badge)))
        // Acrobits' push server has no verb for a silent push.
        case .silent: return .impossible(.noSuitableToken)
        case .notification(let notification):
            guard !notification.isSilent || notification.endedCall != nil else { return .impossible(.noSuitableToken) }
            let message = notification.mediated ?? MediatedMessage(.genericText)
            // Without a selector, Acrobits' push server cannot find the user's account in the app.
            if message.verb != .genericText, token.selector == nil { return .impossible(.noSuitableToken) }
            address = token.other
            verb = message.verb.rawValue
            members = Self.members(notification, message, badge: context.push.badge)
        }
        guard let address else { return .impossible(.noSuitableToken) }
        let limit = AcrobitsRequest.parameterLimit
        var all = [
            PayloadField("verb", verb), PayloadField("AppId", address.appID, atMost: limit),
            PayloadField("DeviceToken", address.deviceToken, atMost: limit),
        ]
        if let selector = token.selector { all.append(PayloadField("Selector", selector, atMost: limit)) }
        var body: [UInt8] = []
        body.append("{")
        (all + members).append(membersTo: &body)
        body.append("}")
        return .request(
            ProviderRequest(url: "\(settings.baseURL)/pnm2/send", headers: ProviderRequest.Header.onlyJSON, body: body))
    }

    private static let messageLimit = 2048

    private static func members(
        _ notification: PushNotification, _ message: MediatedMessage, badge: Int
    ) -> [PayloadField] {
        var members: [PayloadField] = []
        // Unless the sender has set Acrobits' own members, the title precedes the text, because Acrobits' format has no
        // title.
        let title = notification.mediated == nil ? notification.title.array : []
        let separator = title.isEmpty || notification.text.isEmpty ? [] : Array(": ".utf8)
        let text = ByteString(title + separator + notification.text.array)
        if !text.isEmpty { members.append(PayloadField("Message", text, atMost: messageLimit)) }
        if !message.verb.isOfCall { members.append(PayloadField("Badge", Int64(badge))) }
        let texts = [
            ("Sound", notification.sound), ("UserName", message.userName),
            ("UserDisplayName", message.userDisplayName), ("ContentType", message.contentType), ("Id", message.id),
            ("ThreadId", message.threadID),
        ]
        for (name, value) in texts where !value.isEmpty {
            members.append(PayloadField(name, value, atMost: parameterLimit))
        }
        return members
    }

    /// The maximum length of a parameter in JSON bytes: a registered value has at most 4 KiB, and an escaped byte takes
    /// six bytes.
    private static let parameterLimit = 6 * 4096
}
