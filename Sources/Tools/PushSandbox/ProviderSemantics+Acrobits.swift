import JSON

/// Imitates the answers of Acrobits' push server. `POST /pnm2/send` accepts JSON, and `POST /pnm2` accepts the older
/// HTML form.
extension ProviderSemantics {
    private static let genericVerb = "NotifyGenericTextMessage"
    private static let verbs: Set<String> = [
        "NotifyTextMessage", genericVerb, "NotifyIncomingCall", "NotifyIncomingCallMissed",
        "NotifyIncomingCallAnsweredElsewhere",
    ]
    private static let textMembers = [
        "Selector", "Message", "Sound", "UserName", "UserDisplayName", "ContentType", "Id", "ThreadId",
    ]

    func mediate(_ request: SandboxRequest, isForm: Bool = false) -> SandboxAnswer {
        let push = isForm ? MediatorPush(form: request) : MediatorPush(json: request)
        let token = push?.texts["DeviceToken"] ?? ""
        var effects = Effects()
        var status = 200
        var code = 200
        var response = "Push sent"
        if let complaint = Self.requestComplaint(request, push, isForm: isForm) {
            (status, code, response) = (400, 400, complaint)
        } else if case .refused(let refusal) = judge(token, Self.refusal(of: push), &effects), !refusal.isSuccess {
            code = refusal.status == 410 ? 404 : refusal.status
            // If Acrobits' push server works, the HTTP status is 200, and the body has the result of the push. If
            // Acrobits' push server itself fails, the answer has another HTTP status.
            status = [200, 400, 404, 500].contains(code) ? 200 : code
            response = refusal.reason.isEmpty ? Self.usualResponse(for: code) : refusal.reason
        }
        var answer = SandboxAnswer(
            status: status,
            json: .members([("code", .number(Int64(code))), ("response", .string(response))]))
        answer = effects.applied(to: answer)
        record(
            request, service: "acrobits", interface: isForm ? "form" : "json", token: token,
            type: push?.texts["verb"], status: answer.status, reason: code == 200 ? nil : "\(code) \(response)",
            headers: ["content-type"])
        return answer
    }

    /// Why a push request is invalid, if it is.
    private static func requestComplaint(
        _ request: SandboxRequest, _ push: MediatorPush?, isForm: Bool
    ) -> String? {
        guard request.method == "POST" else { return "POST is expected" }
        guard request.contentType == (isForm ? "application/x-www-form-urlencoded" : "application/json") else {
            return "Content-Type is not supported"
        }
        guard let push, !request.isBodyCut else { return "no JSON object" }
        guard isForm else { return nil }
        return ["verb", "AppId", "DeviceToken"].first { push.texts[$0, default: ""].isEmpty }.map { "\($0) is missing" }
    }

    private static func refusal(of push: MediatorPush?) -> Refusal? {
        guard let push, let complaint = complaint(about: push) else { return nil }
        return Refusal(status: 400, reason: complaint)
    }

    private static func complaint(about push: MediatorPush) -> String? {
        if let wrong = push.wrongMember { return "\(wrong) has a value of the wrong type" }
        guard let verb = push.texts["verb"], verbs.contains(verb) else { return "verb is missing or unknown" }
        guard push.texts["AppId"]?.isEmpty == false else { return "AppId is missing" }
        guard let token = push.texts["DeviceToken"], !token.isEmpty else { return "DeviceToken is missing" }
        guard token.utf8.allSatisfy(isBase64) else { return "DeviceToken is not base64" }
        if verb == genericVerb {
            return push.texts["Message"]?.isEmpty == false ? nil : "Message is missing"
        }
        // The older HTML form requires a selector only for text messages.
        guard !push.isForm || verb == "NotifyTextMessage" else { return nil }
        return push.texts["Selector"]?.isEmpty == false ? nil : "Selector is missing"
    }

    /// Whether base64 or base64url has the character, so that a token such as `fail-503` is treated as base64.
    private static func isBase64(_ byte: UInt8) -> Bool {
        isURLBase64(byte) || [UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "=")].contains(byte)
    }

    private static func usualResponse(for code: Int) -> String {
        switch code {
        case 400: "Bad request"
        case 404: "DeviceToken is not registered"
        default: "Internal error"
        }
    }

    /// The values of a push request, from JSON or an HTML form.
    private struct MediatorPush {
        var texts: [String: String] = [:]
        /// The first member with a value of a wrong type. All members of a push request are texts, but `Badge` may be a
        /// whole number.
        var wrongMember: String?
        let isForm: Bool

        init?(json request: SandboxRequest) {
            guard let members = JSONValue.object(in: request.body)?.members else { return nil }
            isForm = false
            for member in members {
                if let text = member.value.string { texts[member.key] = text }
                let isRight =
                    switch member.key {
                    case "Badge": member.value.integer != nil
                    case "verb", "AppId", "DeviceToken": member.value.string != nil
                    default: !textMembers.contains(member.key) || member.value.string != nil
                    }
                if !isRight { wrongMember = wrongMember ?? member.key }
            }
        }

        init(form request: SandboxRequest) {
            isForm = true
            texts = SandboxRequest.formValues(request.body)
        }
    }
}
