import JSON

/// Imitates the answers of Huawei's Push Kit (API v1) and of Huawei's token service.
extension ProviderSemantics {
    /// The push token to which the daemon sends trial pushes to test its credentials. No device has this token.
    private static let nobody = "sippushd-trial"
    private static let bodyLimit = 4096
    private static let longestLife: Int64 = 1_296_000
    private static let messageMembers: Set<String> = ["data", "notification", "android", "apns", "webpush", "token"]
    private static let androidMembers: Set<String> = [
        "collapse_key", "urgency", "category", "ttl", "bi_tag", "fast_app_target", "notification", "data",
    ]

    // MARK: Messages

    func huawei(_ request: SandboxRequest, app: String) -> SandboxAnswer {
        let whole = JSONValue.object(in: request.body)
        let message = whole?["message"]
        let tokens = message?["token"]?.array?.compactMap(\.string) ?? []
        let token = tokens.first ?? ""
        let isTest = whole?["validate_only"] == .bool(true)
        var effects = Effects()
        var answer: SandboxAnswer
        var reason: String?
        switch judge(token, huaweiRefusal(request, message, tokens, app), &effects) {
        case .accepted(let id, _): answer = Self.huaweiAnswer(200, "80000000", "Success", id)
        case .refused(let refusal):
            // A failure plan can have Apple's status 410 for a dead token, for which Huawei has a code and no status.
            let status = refusal.status == 410 ? 200 : refusal.status
            let code = refusal.reason.isEmpty ? Self.usualCode(for: refusal.status) : refusal.reason
            let text = refusal.message.isEmpty ? Self.usualText(for: code, token) : refusal.message
            answer = code.isEmpty ? SandboxAnswer(status: status) : Self.huaweiAnswer(status, code, text, "0")
            reason = code.isEmpty ? "\(status)" : code
        }
        answer = effects.applied(to: answer)
        let data = (message?["data"]?.string).flatMap { try? JSONValue(Array($0.utf8)) }
        record(
            request, service: "hms", interface: "v1", token: token, type: data?["type"]?.string,
            status: answer.status, reason: reason, headers: [], isTrial: isTest && token == Self.nobody)
        return answer
    }

    private static func huaweiAnswer(_ status: Int, _ code: String, _ text: String, _ id: String) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            json: .members([("code", .string(code)), ("msg", .string(text)), ("requestId", .string(id))]))
    }

    private func huaweiRefusal(
        _ request: SandboxRequest, _ message: JSONValue?, _ tokens: [String], _ app: String
    ) -> Refusal? {
        func refused(_ status: Int, _ code: String, _ text: String) -> Refusal {
            Refusal(status: status, reason: code, message: text)
        }
        guard request.method == "POST" else { return refused(400, "80100003", "expected POST") }
        let words = (request.headers["authorization"] ?? "").split(separator: " ")
        guard words.count == 2, words[0] == "Bearer", let grant = huaweiTokens[String(words[1])] else {
            return refused(401, "80200001", "Oauth authentication error")
        }
        guard clock() < grant.end else { return refused(401, "80200003", "Oauth Token expired") }
        guard grant.app == app else { return refused(401, "80200001", "the token is of another app") }
        guard app.hasSuffix("-without-rights") == false else { return refused(200, "80300002", "no right") }
        guard let message, !request.isBodyCut else { return refused(400, "80300010", "no message") }
        guard (1...1000).contains(tokens.count) else { return refused(400, "80300010", "the number of tokens") }
        let tokenSize = tokens.reduce(0) { $0 + $1.utf8.count }
        guard request.body.count - tokenSize <= Self.bodyLimit + 3 * tokens.count else {
            return refused(200, "80300008", "the body is too long")
        }
        if let complaint = Self.huaweiComplaint(about: message) { return refused(400, "80100003", complaint) }
        return tokens == [Self.nobody] ? refused(200, "80300007", "All tokens are invalid") : nil
    }

    private static func huaweiComplaint(about message: JSONValue) -> String? {
        guard let members = message.members else { return "message: an object is expected" }
        if let unknown = members.first(where: { !messageMembers.contains($0.key) }) {
            return "message.\(unknown.key) is unknown"
        }
        if let data = message["data"], data.string == nil { return "message.data: a string is expected" }
        guard let android = message["android"] else { return nil }
        guard let members = android.members else { return "message.android: an object is expected" }
        if let unknown = members.first(where: { !androidMembers.contains($0.key) }) {
            return "message.android.\(unknown.key) is unknown"
        }
        if let key = android["collapse_key"], key.integer.map({ (-1...100).contains($0) }) != true {
            return "message.android.collapse_key is not -1 to 100"
        }
        if let urgency = android["urgency"]?.string, !["HIGH", "NORMAL"].contains(urgency) { return "urgency" }
        if let ttl = android["ttl"], !isLife(ttl) { return "message.android.ttl is not a number of seconds" }
        if let notification = android["notification"], notification["click_action"]?["type"]?.integer == nil {
            return "message.android.notification.click_action is missing"
        }
        return nil
    }

    private static func isLife(_ value: JSONValue) -> Bool {
        guard let text = value.string, text.utf8.last == UInt8(ascii: "s"), let seconds = Int64(text.dropLast()) else {
            return false
        }
        return (0...longestLife).contains(seconds)
    }

    /// The code with which the sandbox refuses a push if its failure plan has only a status; empty if the answer has no
    /// code.
    private static func usualCode(for status: Int) -> String {
        switch status {
        case 400: "80100001"
        case 401: "80200001"
        case 410: "80300007"
        case 500: "81000001"
        default: ""
        }
    }

    private static func usualText(for code: String, _ token: String) -> String {
        guard code == "80100000" else { return code }
        let counts = JSONValue.members([
            ("success", .number(0)), ("failure", .number(1)), ("illegal_tokens", .array([.string(token)])),
        ])
        return String(decoding: counts.bytes, as: UTF8.self)
    }

    // MARK: Tokens

    private static let lifetime: Int64 = 3600

    /// Answers `POST /oauth2/v3/token`, by which a client gets an access token for its id and secret (RFC 6749 section
    /// 4.4).
    func grantToClient(_ request: SandboxRequest) -> SandboxAnswer {
        guard request.method == "POST" else { return SandboxAnswer(status: 405, json: .object([])) }
        let form = SandboxRequest.formValues(request.body)
        guard form["grant_type"] == "client_credentials" else {
            return Self.refusedClient(1102, 20_001, "grant_type: client_credentials is expected")
        }
        guard let app = form["client_id"], !app.isEmpty, let secret = form["client_secret"],
            secret.hasPrefix("hms-"), !secret.hasSuffix("-wrong")
        else { return Self.refusedClient(1101, 20_044, "invalid client") }
        let now = clock()
        if huaweiTokens.count >= Self.accessTokenLimit { huaweiTokens = huaweiTokens.filter { $0.value.end > now } }
        if huaweiTokens.count >= Self.accessTokenLimit { huaweiTokens = [:] }
        let token = "hms-access-" + String(UInt64.random(in: .min ... .max), radix: 36)
        huaweiTokens[token] = HuaweiGrant(app: app, end: now + Self.lifetime * 1000)
        return SandboxAnswer(
            status: 200,
            json: .members([
                ("access_token", .string(token)), ("expires_in", .number(Self.lifetime)), ("token_type", "Bearer"),
            ]))
    }

    /// An access token that the imitated token service of Huawei has issued.
    struct HuaweiGrant {
        let app: String
        /// The token's expiry in Unix milliseconds.
        let end: Int64
    }

    private static func refusedClient(_ error: Int64, _ detail: Int64, _ description: String) -> SandboxAnswer {
        SandboxAnswer(
            status: 400,
            json: .members([
                ("error", .number(error)), ("sub_error", .number(detail)), ("error_description", .string(description)),
            ]))
    }
}
