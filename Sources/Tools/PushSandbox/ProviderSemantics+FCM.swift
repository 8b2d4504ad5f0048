import Crypto
import JSON

/// Imitates the answers of Google's FCM HTTP v1 interface and of its token service.
extension ProviderSemantics {
    private static let messageMembers: Set<String> = [
        "name", "token", "topic", "condition", "data", "notification", "android", "apns", "webpush", "fcm_options",
    ]
    private static let androidMembers: Set<String> = [
        "collapse_key", "priority", "ttl", "restricted_package_name", "data", "notification", "fcm_options",
        "direct_boot_ok",
    ]
    private static let priorities: Set<String> = ["HIGH", "NORMAL", "high", "normal"]
    private static let payloadLimit = 4096
    static let ttlLimit: Int64 = 2_419_200

    // MARK: Messages

    func fcm(_ request: SandboxRequest, project: String) -> SandboxAnswer {
        let whole = JSONValue.object(in: request.body)
        let message = whole?["message"]
        let token = message?["token"]?.string ?? ""
        var effects = Effects()
        let verdict = judge(token, fcmRefusal(request, message, project), &effects)
        var answer: SandboxAnswer
        var reason: String?
        switch verdict {
        case .accepted(let id, _):
            answer = SandboxAnswer(
                status: 200, json: .members([("name", .string("projects/\(project)/messages/\(id)"))]))
        case .refused(let refusal):
            // A failure plan has Apple's status 410 for a dead token, but Google's server answers 404.
            let status = refusal.status == 410 ? 404 : refusal.status
            let word =
                refusal.reason.isEmpty || refusal.status == 410 ? Self.usualReason(for: status) : refusal.reason
            answer = SandboxAnswer(status: status, json: Self.error(status, word, refusal.message))
            reason = word
        }
        answer = effects.applied(to: answer)
        record(
            request, service: "fcm", interface: "v1", token: token,
            type: message?["data"]?["type"]?.string ?? message?["android"]?["data"]?["type"]?.string,
            status: answer.status, reason: reason,
            isTrial: whole?["validate_only"] == .bool(true) && message?["token"] == nil)
        return answer
    }

    private func fcmRefusal(_ request: SandboxRequest, _ message: JSONValue?, _ project: String) -> Refusal? {
        guard request.method == "POST" else { return Refusal(status: 405, reason: "INVALID_ARGUMENT") }
        let words = (request.headers["authorization"] ?? "").split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer", let end = accessTokens[String(words[1])],
            clock() < end
        else {
            return Refusal(status: 401, reason: "UNAUTHENTICATED", message: "no access token of /token, or an old one")
        }
        if let projects, !projects.contains(project) {
            return Refusal(
                status: 403, reason: "PERMISSION_DENIED",
                message: "Permission 'cloudmessaging.messages.create' denied on resource 'projects/\(project)'")
        }
        guard !request.isBodyCut, let message, let complaint = Self.complaint(about: message) else {
            guard message != nil, !request.isBodyCut else {
                return Refusal(status: 400, reason: "INVALID_ARGUMENT", message: "message: an object is expected")
            }
            return nil
        }
        return Refusal(status: 400, reason: "INVALID_ARGUMENT", message: complaint)
    }

    private static func complaint(about message: JSONValue) -> String? {
        guard let members = message.members else { return "message: an object is expected" }
        if let unknown = members.first(where: { !messageMembers.contains($0.key) }) {
            return "Invalid JSON payload received. Unknown name \"\(unknown.key)\" at 'message': Cannot find field."
        }
        let targets = ["token", "topic", "condition"].filter { message[$0] != nil }
        guard targets.count == 1, message[targets[0]]?.string?.isEmpty == false else {
            return "Exactly one of token, topic or condition is required"
        }
        let android = message["android"]
        if let complaint = dataComplaint(message["data"], "message.data") { return complaint }
        guard let android else { return nil }
        guard let members = android.members else { return "message.android: an object is expected" }
        if let unknown = members.first(where: { !androidMembers.contains($0.key) }) {
            return "Unknown name \"\(unknown.key)\" at 'message.android': Cannot find field."
        }
        if let complaint = dataComplaint(android["data"], "message.android.data") { return complaint }
        if let priority = android["priority"], priority.string.map({ priorities.contains($0) }) != true {
            return "Invalid value at 'message.android.priority'"
        }
        if let ttl = android["ttl"], !isDuration(ttl) { return "Invalid value at 'message.android.ttl'" }
        return nil
    }

    /// Why the data of a message are refused; `nil` if the data are accepted. Keys and values of a message's data must
    /// be strings with at most 4096 bytes together. Google reserves some keys; data with a reserved key are refused.
    static func dataComplaint(_ data: JSONValue?, _ name: String) -> String? {
        guard let data else { return nil }
        guard let members = data.members else { return "\(name): an object is expected" }
        var count = 0
        for member in members {
            guard let value = member.value.string else {
                return "Invalid value at '\(name)[\(member.key)]' (TYPE_STRING)"
            }
            guard !isReserved(member.key) else { return "Invalid data payload key: \(member.key)" }
            count += member.key.utf8.count + value.utf8.count
        }
        return count <= payloadLimit ? nil : "Android message is too big"
    }

    static func isReserved(_ key: String) -> Bool {
        key == "from" || key == "message_type" || key.hasPrefix("google.") || key.hasPrefix("gcm.")
    }

    /// Whether the value is a duration such as `28s` or `3.5s`, of at most four weeks and with at most nine decimals.
    static func isDuration(_ value: JSONValue) -> Bool {
        guard let text = value.string, text.utf8.last == UInt8(ascii: "s") else { return false }
        let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let whole = parts.first.flatMap({ Int64($0) }),
            parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } })
        else { return false }
        return whole <= ttlLimit && (parts.count == 1 || parts[1].utf8.count <= 9)
    }

    private static func usualReason(for status: Int) -> String {
        switch status {
        case 400: "INVALID_ARGUMENT"
        case 401: "UNAUTHENTICATED"
        case 403: "SENDER_ID_MISMATCH"
        case 404: "UNREGISTERED"
        case 429: "QUOTA_EXCEEDED"
        case 503: "UNAVAILABLE"
        default: "INTERNAL"
        }
    }

    /// An error in Google's format, with two codes: a general code and, in the details, FCM's own code.
    private static func error(_ status: Int, _ reason: String, _ message: String) -> JSONValue {
        let general =
            switch reason {
            case "UNREGISTERED": "NOT_FOUND"
            case "SENDER_ID_MISMATCH": "PERMISSION_DENIED"
            case "QUOTA_EXCEEDED": "RESOURCE_EXHAUSTED"
            case "THIRD_PARTY_AUTH_ERROR": "UNAUTHENTICATED"
            default: reason
            }
        var members: [(String, JSONValue)] = [
            ("code", .number(Int64(status))), ("message", .string(message.isEmpty ? reason : message)),
            ("status", .string(general)),
        ]
        if reason != "UNAUTHENTICATED" {
            let detail = JSONValue.members([
                ("@type", "type.googleapis.com/google.firebase.fcm.v1.FcmError"), ("errorCode", .string(reason)),
            ])
            members.append(("details", .array([detail])))
        }
        return .members([("error", .members(members))])
    }

    // MARK: Tokens

    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    private static let lifetime: Int64 = 3600

    /// Answers `POST /token`, by which a client gets an access token for a signed assertion (RFC 7523 section 2.1).
    func grant(_ request: SandboxRequest) -> SandboxAnswer {
        guard request.method == "POST" else { return SandboxAnswer(status: 405, json: .object([])) }
        let form = SandboxRequest.formValues(request.body)
        guard form["grant_type"] == Self.grantType else {
            return Self.refused("unsupported_grant_type", "Invalid grant_type: \(form["grant_type"] ?? "")")
        }
        if let complaint = assertionComplaint(form["assertion"] ?? "") {
            return Self.refused("invalid_grant", complaint)
        }
        let now = clock()
        if accessTokens.count >= Self.accessTokenLimit { accessTokens = accessTokens.filter { $0.value > now } }
        if accessTokens.count >= Self.accessTokenLimit { accessTokens = [:] }
        let token = "sandbox-" + String(UInt64.random(in: .min ... .max), radix: 36)
        accessTokens[token] = now + Self.lifetime * 1000
        return SandboxAnswer(
            status: 200,
            json: .members([
                ("access_token", .string(token)), ("expires_in", .number(Self.lifetime)), ("token_type", "Bearer"),
            ]))
    }

    private func assertionComplaint(_ assertion: String) -> String? {
        guard let token = WebToken(assertion), token.header["alg"]?.string == "RS256" else {
            return "the assertion is not an RS256 web token"
        }
        if let accountKey, !accountKey.isValid(token.signature, for: token.signed) { return "Invalid JWT Signature." }
        let claims = token.claims
        guard claims["iss"]?.string?.isEmpty == false else { return "iss is missing" }
        guard claims["scope"]?.string?.split(separator: " ").contains(Self.scope[...]) == true else {
            return "scope does not have \(Self.scope)"
        }
        // Only the path of a token's audience is checked, because the sandbox has several addresses.
        guard claims["aud"]?.string?.hasSuffix("/token") == true else { return "aud is not this token service" }
        let now = clock() / 1000
        guard let made = claims["iat"]?.integer, let end = claims["exp"]?.integer, made <= now + 300, end > now,
            end.subtractingReportingOverflow(made).partialValue <= Self.lifetime
        else { return "iat and exp must be a time of at most 60 minutes that includes now" }
        return nil
    }

    private static func refused(_ error: String, _ description: String) -> SandboxAnswer {
        SandboxAnswer(
            status: 400,
            json: .members([("error", .string(error)), ("error_description", .string(description))]))
    }
}
