import Bytes
import Crypto
import JSON

/// Imitates Apple's answers to pushes, `POST /3/device/TOKEN`.
extension ProviderSemantics {
    private static let pushTypes: Set<String> = [
        "alert", "background", "voip", "complication", "fileprovider", "mdm", "liveactivity", "pushtotalk", "location",
        "controls", "widgets",
    ]

    func apns(_ request: SandboxRequest, token: String) -> SandboxAnswer {
        let payload = JSONValue.object(in: request.body)
        let type = payload?["acme"]?["type"]?.string
        var effects = Effects()
        let verdict = judge(token, apnsRefusal(request, token, payload, type), &effects)
        let id = request.headers["apns-id"].flatMap { Self.isUUID($0) ? $0 : nil }
        var answer: SandboxAnswer
        var reason: String?
        switch verdict {
        case .accepted(let number, _):
            answer = SandboxAnswer(status: 200)
            answer.headers["apns-id"] = id ?? Self.uuid(number)
        case .refused(let refusal):
            let word = refusal.reason.isEmpty ? Self.usualReason(for: refusal.status) : refusal.reason
            var members = [("reason", JSONValue.string(word))]
            if refusal.status == 410 { members.append(("timestamp", .number(refusal.timestamp ?? clock()))) }
            answer = SandboxAnswer(status: refusal.status, json: .members(members))
            answer.headers["apns-id"] = id
            reason = word
        }
        answer = effects.applied(to: answer)
        record(
            request, service: "apns", interface: "apns", token: token, type: type, status: answer.status,
            reason: reason, isTrial: Self.isNobodys(token))
        return answer
    }

    private func apnsRefusal(
        _ request: SandboxRequest, _ token: String, _ payload: JSONValue?, _ type: String?
    ) -> Refusal? {
        func refusal(_ status: Int, _ reason: String) -> Refusal { Refusal(status: status, reason: reason) }
        guard request.method == "POST" else { return refusal(405, "MethodNotAllowed") }
        guard !token.isEmpty else { return refusal(400, "MissingDeviceToken") }
        guard (8...200).contains(token.utf8.count), token.utf8.count.isMultiple(of: 2),
            token.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit })
        else { return refusal(400, "BadDeviceToken") }
        if let complaint = apnsCredentialComplaint(request.headers["authorization"]) { return refusal(403, complaint) }
        if request.repeatedHeaders.contains(where: { $0.hasPrefix("apns-") || $0 == "authorization" }) {
            return refusal(400, "DuplicateHeaders")
        }
        if let complaint = apnsHeaderComplaint(request.headers) { return refusal(400, complaint) }
        let isVoIP = request.headers["apns-push-type"] == "voip"
        guard !request.isBodyCut, request.body.count <= (isVoIP ? 5120 : 4096) else {
            return refusal(413, "PayloadTooLarge")
        }
        guard payload != nil else { return refusal(400, "PayloadEmpty") }
        if Self.isNobodys(token) { return refusal(400, "BadDeviceToken") }
        // A push about missed calls must be no VoIP push, because iOS ends an app that gets a VoIP push and reports no
        // call.
        if isVoIP, type == "missed_calls" { return refusal(400, "InvalidPushType") }
        return nil
    }

    /// Whether the token is 64 zeros, which Apple gives to no device.
    private static func isNobodys(_ token: String) -> Bool {
        token.utf8.count == 64 && token.utf8.allSatisfy { $0 == UInt8(ascii: "0") }
    }

    private func apnsHeaderComplaint(_ headers: [String: String]) -> String? {
        if let id = headers["apns-id"], !Self.isUUID(id) { return "BadMessageId" }
        if let expiration = headers["apns-expiration"], Int64(expiration).map({ $0 >= 0 }) != true {
            return "BadExpirationDate"
        }
        if let priority = headers["apns-priority"], !["1", "5", "10"].contains(priority) { return "BadPriority" }
        if let collapse = headers["apns-collapse-id"], collapse.utf8.count > 64 { return "BadCollapseId" }
        guard let topic = headers["apns-topic"], !topic.isEmpty else { return "MissingTopic" }
        guard topic.utf8.count <= 255, topic.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return "BadTopic" }
        // Apple requires `apns-push-type` since iOS 13. A push without `apns-push-type` is treated as an alert.
        let kind = headers["apns-push-type"] ?? "alert"
        guard Self.pushTypes.contains(kind) else { return "InvalidPushType" }
        if let topics {
            let app = topic.hasSuffix(".voip") ? String(topic.dropLast(5)) : topic
            guard topics.contains(app) else { return "TopicDisallowed" }
        }
        guard (kind == "voip") == topic.hasSuffix(".voip") else { return "TopicDisallowed" }
        if kind == "background", headers["apns-priority"] != "5" { return "BadPriority" }
        return nil
    }

    /// Why the credential for APNs is refused, if it is. A valid credential is the word `bearer` and a JSON web token,
    /// at most an hour old and signed by the known key.
    private func apnsCredentialComplaint(_ authorization: String?) -> String? {
        guard let authorization else { return "MissingProviderToken" }
        let words = authorization.split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer", let token = WebToken(words[1]),
            token.header["alg"]?.string == "ES256", token.header["kid"]?.string?.isEmpty == false,
            token.claims["iss"]?.string?.isEmpty == false, let made = token.claims["iat"]?.integer,
            token.signature.count == 64
        else { return "InvalidProviderToken" }
        if let apnsKey, !apnsKey.isValid(token.signature, for: token.signed) { return "InvalidProviderToken" }
        let (age, overflow) = (clock() / 1000).subtractingReportingOverflow(made)
        guard !overflow, age < 3600 else { return "ExpiredProviderToken" }
        // A token may be up to five minutes in the future, because clocks differ.
        return age > -300 ? nil : "InvalidProviderToken"
    }

    private static func usualReason(for status: Int) -> String {
        switch status {
        case 400: "BadDeviceToken"
        case 403: "InvalidProviderToken"
        case 404: "BadPath"
        case 405: "MethodNotAllowed"
        case 410: "Unregistered"
        case 413: "PayloadTooLarge"
        case 429: "TooManyRequests"
        case 503: "ServiceUnavailable"
        default: "InternalServerError"
        }
    }

    /// Whether the text has the form of a UUID: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    private static func isUUID(_ text: String) -> Bool {
        let groups = text.split(separator: "-", omittingEmptySubsequences: false)
        return groups.map(\.utf8.count) == [8, 4, 4, 4, 12] && groups.joined().allSatisfy(\.isHexDigit)
    }

    private static func uuid(_ number: String) -> String {
        "00000000-0000-4000-8000-" + String(repeating: "0", count: max(0, 12 - number.count)) + number.suffix(12)
    }
}

/// A JSON web token, split into its parts (RFC 7515 section 7.1).
struct WebToken {
    let header: JSONValue
    let claims: JSONValue
    let signature: [UInt8]
    /// The bytes that the signature of the token covers.
    let signed: [UInt8]

    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64.url.decode(Array(parts[0].utf8)).flatMap(JSONValue.object),
            let claims = Base64.url.decode(Array(parts[1].utf8)).flatMap(JSONValue.object),
            let signature = Base64.url.decode(Array(parts[2].utf8))
        else { return nil }
        self.header = header
        self.claims = claims
        self.signature = signature
        signed = Array("\(parts[0]).\(parts[1])".utf8)
    }
}
