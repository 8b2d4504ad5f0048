import Bytes
import JSON

/// Builds the pushes of one app for Huawei's Push Kit (API v1). The member `data` is a string with a JSON object, which
/// has the fields of the app's payload format, with all values as strings.
final class HMSRequest: Sendable {
    /// The maximum size of a request's body in bytes, without the push token.
    static let bodyLimit = 4096

    private let settings: HMSSettings
    private let url: String

    init(_ settings: HMSSettings) {
        self.settings = settings
        url = settings.sendURL
    }

    func make(_ context: PayloadContext) -> PushRendering {
        var token: [UInt8] = []
        token.append(jsonString: context.push.token.prid)
        if case .silent = context.push.message { return .request(request(Self.test(token))) }
        var room = Self.bodyLimit
        while true {
            let body = body(context, token, room: room)
            let size = body.count - token.count
            if size <= Self.bodyLimit { return .request(request(body)) }
            guard room > 0, !context.isAboutCall else { return .impossible(.payloadRefused("a body of \(size) bytes")) }
            // A list of missed calls or a notification is shortened. The variable `room` counts the bytes before they
            // are escaped a second time. Therefore more than one round can be necessary.
            room -= max((size - Self.bodyLimit) / 2, Self.leastStep)
        }
    }

    private static let leastStep = 32

    private func request(_ body: [UInt8]) -> ProviderRequest {
        ProviderRequest(url: url, headers: ProviderRequest.Header.onlyJSON, body: body)
    }

    /// A request with which Huawei checks a push token, and sends no push.
    static func test(_ token: [UInt8]) -> [UInt8] {
        var body = Array("{\"validate_only\":true,\"message\":{\"data\":\"{}\",\"token\":[".utf8)
        body += token
        body.append("]}}")
        return body
    }

    private func body(_ context: PayloadContext, _ token: [UInt8], room: Int) -> [UInt8] {
        var data: [UInt8] = []
        data.append("{")
        settings.payload.fields(context, room: room).append(membersTo: &data, asStrings: true)
        data.append("}")
        var body: [UInt8] = []
        body.reserveCapacity(data.count + token.count + 320)
        body.append("{\"validate_only\":false,\"message\":{\"data\":")
        body.append(jsonString: data.span)
        body.append(",\"android\":{\"collapse_key\":")
        body.append(decimal: context.collapseGroup)
        let isCall = context.isAboutCall
        body.append(isCall && settings.urgency == .high ? ",\"urgency\":\"HIGH\"" : ",\"urgency\":\"NORMAL\"")
        if isCall, !settings.category.isEmpty {
            body.append(",\"category\":")
            body.append(jsonString: settings.category)
        }
        body.append(",\"ttl\":\"")
        body.append(decimal: min(max(context.life, 1), Self.longestLife))
        body.append("s\"")
        if settings.style == .notification { append(textOf: context, to: &body) }
        body.append("},\"token\":[")
        body.append(contentsOf: token)
        body.append("]}}")
        return body
    }

    /// The longest time in seconds for which Huawei keeps a push.
    private static let longestLife: Int64 = 1_296_000
    private static let textLimit = 256

    /// Appends the text that the phone's system shows. If battery rules hold the app back, the app starts only when the
    /// user touches the text.
    private func append(textOf context: PayloadContext, to body: inout [UInt8]) {
        let texts = context.settings.texts
        let title: ByteString
        let text: ByteString
        switch context.push.message {
        case .incomingCall(let call):
            title = ByteString(texts.incomingCall)
            text = call.shownCaller(anonymous: texts.anonymous)
        case .missedCalls(let calls):
            title = ByteString(texts.missedCalls)
            text = CallList.callers(calls, atMost: Self.textLimit)
        case .notification(let notification):
            guard !notification.isSilent else { return }
            title = notification.title
            text = notification.text
        case .silent: return
        }
        body.append(",\"notification\":{\"title\":")
        body.append(jsonString: title, atMost: Self.textLimit)
        body.append(",\"body\":")
        body.append(jsonString: text, atMost: Self.textLimit)
        // The click action 3 opens the app.
        body.append(",\"click_action\":{\"type\":3}}")
    }
}

extension HMSSettings {
    /// The URL to which pushes of the app are posted.
    var sendURL: String { "\(baseURL)/v1/\(appID ?? "")/messages:send" }
}

extension PayloadContext {
    /// Whether the push announces a call or its end, so that Huawei must deliver it at once.
    fileprivate var isAboutCall: Bool { wholeCallID != nil }

    /// How long Huawei keeps the push for a device that is offline, in seconds.
    fileprivate var life: Int64 {
        switch push.message {
        case .incomingCall: inviteTTL
        case .notification(let notification): life(of: notification)
        case .missedCalls, .silent: missedCallsTTL
        }
    }

    /// The collapse group of the push: for a device that is offline, Huawei keeps only the newest push of a group. With
    /// -1, Huawei keeps every push. A list of missed calls replaces earlier, shorter lists.
    fileprivate var collapseGroup: Int {
        guard let key = push.collapseKey else { return -1 }
        let sum = key.utf8.reduce(UInt32(2_166_136_261)) { ($0 ^ UInt32($1)) &* 16_777_619 }
        return Int(sum % 100) + 1
    }
}
