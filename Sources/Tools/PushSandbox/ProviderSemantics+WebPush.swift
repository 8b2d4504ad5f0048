import Bytes
import Crypto
import JSON

/// Imitates a web push service, `POST /webpush/ID` (RFC 8030, RFC 8291, RFC 8292), and a push server of UnifiedPush,
/// `POST /up/ID`. The push server of UnifiedPush knows only subscriptions that were created for it, and accepts no push
/// without payload.
extension ProviderSemantics {
    /// The imitated services with subscriptions. The name of a service is the first part of its paths.
    enum SubscriptionService: String {
        case webPush = "webpush"
        case unifiedPush = "up"

        /// The name of the service in the records.
        var name: String { self == .webPush ? "webpush" : "unifiedpush" }
    }

    private static let urgencies: Set<String> = ["very-low", "low", "normal", "high"]
    private static let webPushBodyLimit = 4096
    /// The maximum time to live of a push in seconds: four weeks. A longer time to live is shortened to four weeks.
    private static let webPushTTLLimit: Int64 = 2_419_200
    /// The value of Retry-After in an answer 429, if the failure plan has none.
    private static let usualRetryAfter = "10"
    private static let webPushHeaders = ["ttl", "urgency", "topic", "content-encoding", "prefer"]

    func webPush(
        _ request: SandboxRequest, id: String, at service: SubscriptionService = .webPush
    ) -> SandboxAnswer {
        var text: [UInt8] = []
        var effects = Effects()
        let verdict = judge(id, webPushRefusal(request, id, at: service, &text), &effects)
        var answer: SandboxAnswer
        var reason: String?
        switch verdict {
        case .accepted(let number, _): answer = taken(request, status: 201, number)
        case .refused(let refusal) where refusal.isSuccess: answer = taken(request, status: refusal.status, "planned")
        case .refused(let refusal):
            let word = refusal.reason.isEmpty ? Self.usualWord(for: refusal.status) : refusal.reason
            answer = SandboxAnswer(
                status: refusal.status,
                json: .members([
                    ("code", .number(Int64(refusal.status))), ("reason", .string(word)),
                    ("message", .string(refusal.message)),
                ]))
            if refusal.status == 401 { answer.headers["www-authenticate"] = "vapid" }
            if refusal.status == 429, service == .unifiedPush {
                answer.headers["retry-after"] = Self.usualRetryAfter
            }
            reason = word
        }
        answer = effects.applied(to: answer)
        let json = JSONValue.object(in: text)
        record(
            request, service: service.name, interface: "webpush", token: id,
            type: json?["type"]?.string ?? json?["data"]?["type"]?.string, status: answer.status, reason: reason,
            headers: Self.webPushHeaders, body: text)
        return answer
    }

    /// Answers `GET /up/ID`, by which old clients discover a push server of UnifiedPush.
    func unifiedPushVersion() -> SandboxAnswer {
        SandboxAnswer(status: 200, json: .members([("unifiedpush", .members([("version", .number(1))]))]))
    }

    private func taken(_ request: SandboxRequest, status: Int, _ number: String) -> SandboxAnswer {
        let ttl = min(request.headers["ttl"].flatMap { Int64($0) } ?? 0, Self.webPushTTLLimit)
        return SandboxAnswer(
            status: status,
            headers: ["location": "\(request.origin ?? webPushOrigin ?? "")/message/\(number)", "ttl": "\(ttl)"])
    }

    private static func usualWord(for status: Int) -> String {
        switch status {
        case 401, 403: "Unauthorized"
        case 404: "NotFound"
        case 410: "Gone"
        case 413: "PayloadTooLarge"
        case 429: "TooManyRequests"
        case 400..<500: "BadRequest"
        default: "InternalError"
        }
    }

    // MARK: Checking

    /// Why the web push is refused; `nil` if the push is accepted. If the web push is accepted, the function stores its
    /// decrypted body in `text`.
    private func webPushRefusal(
        _ request: SandboxRequest, _ id: String, at service: SubscriptionService, _ text: inout [UInt8]
    ) -> Refusal? {
        func refusal(_ status: Int, _ reason: String, _ message: String = "") -> Refusal {
            Refusal(status: status, reason: reason, message: message)
        }
        guard request.method == "POST" else { return refusal(405, "MethodNotAllowed") }
        guard !id.isEmpty else { return refusal(404, "NotFound") }
        if service == .unifiedPush, subscriptions[id]?.service != .unifiedPush { return refusal(404, "NotFound") }
        guard !request.isBodyCut, request.body.count <= Self.webPushBodyLimit else {
            return refusal(413, "PayloadTooLarge")
        }
        let steering = Set(Self.webPushHeaders + ["authorization"])
        if let repeated = request.repeatedHeaders.first(where: steering.contains) {
            return refusal(400, "DuplicateHeaders", repeated)
        }
        guard let ttl = request.headers["ttl"] else { return refusal(400, "MissingTTL") }
        guard Self.isNumber(ttl) else { return refusal(400, "BadTTL") }
        if let urgency = request.headers["urgency"], !Self.urgencies.contains(urgency) {
            return refusal(400, "BadUrgency")
        }
        if let topic = request.headers["topic"], !Self.isTopic(topic) { return refusal(400, "BadTopic") }
        let subscription = subscriptions[id]
        switch senderComplaint(request, subscription) {
        case .unauthorized(let message): return refusal(401, "Unauthorized", message)
        case .forbidden(let message): return refusal(403, "Forbidden", message)
        case nil: break
        }
        let coding = request.headers["content-encoding"]
        guard !request.body.isEmpty else {
            // A push server of UnifiedPush accepts no push without an encrypted payload.
            if service == .unifiedPush { return refusal(400, "BadRequest", "the payload is missing") }
            return coding == nil ? nil : refusal(400, "BadContentEncoding", "there is nothing to decode")
        }
        guard coding == "aes128gcm" else { return refusal(400, "BadContentEncoding", "only aes128gcm is known") }
        guard let subscription else {
            return refusal(400, "NoSubscription", "nobody has the keys: PUT /sandbox/subscriptions/\(id) first")
        }
        do throws(CryptoError) {
            text = try WebPushEncryption.decrypt(
                request.body, with: subscription.keys, authSecret: subscription.authSecret)
            return nil
        } catch {
            return refusal(400, "Undecryptable", error.description)
        }
    }

    /// Whether the text is a decimal number that fits into an `Int64`.
    private static func isNumber(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x30...0x39).contains($0) } && Int64(text) != nil
    }

    /// Whether the text is a valid topic: at most 32 characters of base64url (RFC 8030 section 5.4).
    private static func isTopic(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count) && text.utf8.allSatisfy(isURLBase64)
    }

    static func isURLBase64(_ byte: UInt8) -> Bool {
        switch Unicode.Scalar(byte) {
        case "A"..."Z", "a"..."z", "0"..."9", "-", "_": true
        default: false
        }
    }

    private enum SenderComplaint {
        case unauthorized(String)
        case forbidden(String)
    }

    /// Why the credential `vapid t=TOKEN, k=KEY` is refused; `nil` if the credential is valid. A valid VAPID token is
    /// signed by the key `k` for the imitated service, and expires within a day.
    private func senderComplaint(
        _ request: SandboxRequest, _ subscription: WebPushSubscription?
    ) -> SenderComplaint? {
        guard let authorization = request.headers["authorization"] else { return .unauthorized("no authorization") }
        guard let sender = VAPIDSender(authorization) else { return .unauthorized("not vapid with t and k") }
        guard sender.token.header["alg"]?.string == "ES256",
            sender.key.isValid(sender.token.signature, for: sender.token.signed)
        else { return .forbidden("the token is not signed by k") }
        if let allowed = subscription?.allowedSender, allowed != sender.key.point {
            return .forbidden("the subscription is for another sender's key")
        }
        let claims = sender.token.claims
        guard let audience = claims["aud"]?.string, audience == request.origin || audience == webPushOrigin else {
            return .forbidden("aud is not \(request.origin ?? webPushOrigin ?? "this service")")
        }
        let now = clock() / 1000
        guard let end = claims["exp"]?.integer, end > now, end <= now + 86_400 else {
            return .forbidden("exp is not within the next 24 hours")
        }
        guard let contact = claims["sub"] else { return nil }
        guard let text = contact.string, text.hasPrefix("mailto:") || text.hasPrefix("https:") else {
            return .forbidden("sub is neither a mailto nor an https URI")
        }
        return nil
    }

    // MARK: Subscribing

    /// Answers `PUT /sandbox/subscriptions/ID`, which creates a subscription. If the body is `{"vapid":KEY}`, the
    /// subscription accepts only pushes that are signed with the key.
    func putSubscription(_ request: SandboxRequest, id: String) -> SandboxAnswer {
        func refusal(_ status: Int, _ error: JSONValue) -> SandboxAnswer {
            SandboxAnswer(status: status, json: .members([("error", error)]))
        }
        guard (1...200).contains(id.utf8.count), id.utf8.allSatisfy({ Self.isURLBase64($0) || $0 == 0x2E }) else {
            return refusal(400, "an id has letters, digits, '-', '_' and '.'")
        }
        var allowed: [UInt8]?
        var service = SubscriptionService.webPush
        if !request.body.isEmpty {
            guard let wanted = JSONValue.object(in: request.body), let members = wanted.members,
                members.allSatisfy({ ["vapid", "service"].contains($0.key) && $0.value.string != nil })
            else { return refusal(400, "not a subscription") }
            switch wanted["service"]?.string {
            case nil, "webpush": break
            case "unifiedpush": service = .unifiedPush
            default: return refusal(400, "service is webpush or unifiedpush")
            }
            if let key = wanted["vapid"]?.string {
                allowed = Base64.url.decode(Array(key.utf8))
                guard let allowed, (try? P256PublicKey(point: allowed)) != nil else {
                    return refusal(400, "vapid is not a public key")
                }
            }
        }
        guard subscriptions[id] != nil || subscriptions.count < Self.subscriptionLimit else {
            return refusal(507, "too many subscriptions")
        }
        do throws(CryptoError) {
            // If the subscription already exists, its keys are kept.
            var subscription = if let known = subscriptions[id] { known } else { try WebPushSubscription() }
            subscription.allowedSender = allowed
            subscription.service = service
            subscriptions[id] = subscription
            let origin = webPushOrigin ?? request.origin ?? ""
            return SandboxAnswer(
                status: 200,
                json: .members([
                    ("endpoint", .string("\(origin)/\(service.rawValue)/\(id)")),
                    ("p256dh", Self.base64(subscription.keys.publicKey)),
                    ("auth", Self.base64(subscription.authSecret)),
                ]))
        } catch {
            return refusal(500, .string(error.description))
        }
    }

    private static func base64(_ bytes: [UInt8]) -> JSONValue {
        .string(String(decoding: Base64.url.encode(bytes), as: UTF8.self))
    }
}

/// The values in a header field `Authorization: vapid` (RFC 8292 section 3).
private struct VAPIDSender {
    let token: WebToken
    let key: P256PublicKey

    init?(_ authorization: String) {
        let words = authorization.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "vapid" else { return nil }
        var parameters: [Substring: Substring] = [:]
        for part in words[1].split(separator: ",", omittingEmptySubsequences: false) {
            let trimmed = part.drop { $0 == " " || $0 == "\t" }
            let sides = trimmed.split(separator: "=", maxSplits: 1)
            guard sides.count == 2, parameters.updateValue(sides[1], forKey: sides[0]) == nil else { return nil }
        }
        guard let text = parameters["t"], let token = WebToken(text), let point = parameters["k"],
            let bytes = Base64.url.decode(Array(point.utf8)), let key = try? P256PublicKey(point: bytes)
        else { return nil }
        self.token = token
        self.key = key
    }
}
