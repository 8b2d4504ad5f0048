package import Crypto
import Foundation

/// What Apple and Google would say to a push: checks requests as they do, keeps what was sent, fails as told.
///
/// No I/O: a request comes in, an answer goes out. Used by one thread.
package final class ProviderSemantics {
    package private(set) var records: [PushRecord] = []
    package var recorded: (PushRecord) -> Void = { _ in }

    private var plans: [String: FailurePlan] = [:]
    private var accessTokens = Set<String>()
    private var sent: UInt64 = 0
    private let apnsKey: ProviderKey?
    private let clock: () -> Int64

    private static let recordLimit = 100_000

    /// - Parameters:
    ///   - apnsKey: verifies the signatures of APNs tokens; without it only their form is looked at.
    ///   - clock: Unix milliseconds.
    package init(apnsKey: ProviderKey? = nil, clock: @escaping () -> Int64) {
        self.apnsKey = apnsKey
        self.clock = clock
    }

    package func answer(_ request: SandboxRequest) -> SandboxAnswer {
        let path = request.path.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
        if path.first == "sandbox" { return control(request, Array(path.dropFirst())) }
        guard request.method == "POST" else {
            return SandboxAnswer(status: 405, json: "{\"reason\":\"MethodNotAllowed\"}")
        }
        if path.count >= 2, path[0] == "3", path[1] == "device" { return apns(request, path) }
        if path.count == 4, path[0] == "v1", path[1] == "projects", path[3] == "messages:send" { return fcm(request) }
        if path == ["fcm", "send"] { return legacy(request) }
        if path == ["token"] { return grant(request) }
        return SandboxAnswer(status: 404, json: "{\"reason\":\"BadPath\"}")
    }

    // MARK: APNs

    private func apns(_ request: SandboxRequest, _ path: [String]) -> SandboxAnswer {
        let token = path.count == 3 ? path[2].removingPercentEncoding ?? path[2] : ""
        let fault = apnsFault(request, token)
        return conclude(request, service: "apns", token: token, fault: fault) { plan in
            let time = plan.timestamp ?? (plan.status == 410 ? self.clock() : nil)
            let stamp = time.map { ",\"timestamp\":\($0)" } ?? ""
            return SandboxAnswer(
                status: plan.status, json: "{\"reason\":\"\(plan.reason ?? Self.apnsReason(plan.status))\"\(stamp)}")
        } accepted: {
            SandboxAnswer(
                status: 200, headers: ["apns-id": request.headers["apns-id"] ?? "00000000-0000-4000-8000-000000000000"])
        }
    }

    private func apnsFault(_ request: SandboxRequest, _ token: String) -> FailurePlan? {
        func fault(_ status: Int, _ reason: String) -> FailurePlan { FailurePlan(status: status, reason: reason) }
        guard request.version == "h2" else { return fault(400, "BadPath") }
        guard !token.isEmpty else { return fault(400, "MissingDeviceToken") }
        guard token.count >= 8, token.count % 2 == 0, token.allSatisfy(\.isHexDigit) else {
            return fault(400, "BadDeviceToken")
        }
        guard let bearer = request.headers["authorization"] else { return fault(403, "MissingProviderToken") }
        guard isValid(bearer) else { return fault(403, "InvalidProviderToken") }
        guard let topic = request.headers["apns-topic"], !topic.isEmpty else { return fault(400, "MissingTopic") }
        let kind = request.headers["apns-push-type"] ?? "alert"
        guard ["alert", "background", "voip"].contains(kind) else { return fault(400, "InvalidPushType") }
        guard (kind == "voip") == topic.hasSuffix(".voip") else { return fault(400, "TopicDisallowed") }
        if let priority = request.headers["apns-priority"], !["1", "5", "10"].contains(priority) {
            return fault(400, "BadPriority")
        }
        guard kind != "background" || request.headers["apns-priority"] == "5" else { return fault(400, "BadPriority") }
        if let expiration = request.headers["apns-expiration"], Int64(expiration) == nil {
            return fault(400, "BadExpirationDate")
        }
        guard !request.body.isEmpty else { return fault(400, "PayloadEmpty") }
        guard request.body.count <= (kind == "voip" ? 5120 : 4096) else { return fault(413, "PayloadTooLarge") }
        guard let payload = object(request.body), payload["aps"] is [String: Any] else {
            return fault(400, "PayloadEmpty")
        }
        // An app whose VoIP push reports no call is ended by iOS: no sender may do that.
        if kind == "voip", self.kind(of: request.body) != "invite" { return fault(400, "InvalidPushType") }
        return nil
    }

    /// `bearer` with a JSON web token in three parts, signed by the key we know.
    private func isValid(_ bearer: String) -> Bool {
        let words = bearer.split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer" else { return false }
        let parts = words[1].split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = Base64.url.decode(Array(parts[2].utf8)), signature.count == 64,
            let claims = Base64.url.decode(Array(parts[1].utf8)).flatMap(object), let made = claims["iat"] as? Int64,
            made > clock() / 1000 &- 3600, made < clock() / 1000 &+ 3600
        else { return false }
        return apnsKey?.isValid(signature, for: Array("\(parts[0]).\(parts[1])".utf8)) ?? true
    }

    // MARK: FCM

    private func fcm(_ request: SandboxRequest) -> SandboxAnswer {
        let message = object(request.body)?["message"] as? [String: Any]
        let token = message?["token"] as? String ?? ""
        return conclude(request, service: "fcm", token: token, fault: fcmFault(request, message)) { plan in
            let code = plan.reason ?? Self.fcmCode(plan.status)
            return SandboxAnswer(
                status: plan.status,
                json: """
                    {"error":{"code":\(plan.status),"message":"\(code)","status":"\(code)","details":[{"@type":\
                    "type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\(code)"}]}}
                    """)
        } accepted: {
            SandboxAnswer(status: 200, json: "{\"name\":\"projects/sandbox/messages/\(self.sent)\"}")
        }
    }

    private func fcmFault(_ request: SandboxRequest, _ message: [String: Any]?) -> FailurePlan? {
        let words = (request.headers["authorization"] ?? "").split(separator: " ")
        guard words.count == 2, words[0] == "Bearer", accessTokens.contains(String(words[1])) else {
            return FailurePlan(status: 401, reason: "UNAUTHENTICATED")
        }
        let data = message?["data"] as? [String: Any] ?? [:]
        guard message?["token"] is String, data.values.allSatisfy({ $0 is String }), request.body.count <= 8192 else {
            return FailurePlan(status: 400, reason: "INVALID_ARGUMENT")
        }
        if let ttl = (message?["android"] as? [String: Any])?["ttl"] {
            guard let text = ttl as? String, text.hasSuffix("s"), Double(text.dropLast()) != nil else {
                return FailurePlan(status: 400, reason: "INVALID_ARGUMENT")
            }
        }
        return nil
    }

    private func legacy(_ request: SandboxRequest) -> SandboxAnswer {
        let message = object(request.body)
        let token = message?["to"] as? String ?? ""
        var fault: FailurePlan?
        if request.headers["authorization"]?.hasPrefix("key=") != true { fault = FailurePlan(status: 401) }
        if message == nil { fault = FailurePlan(status: 400) }
        return conclude(request, service: "fcm", token: token, fault: fault) { plan in
            // The legacy service says in a 200 that a token is dead.
            guard plan.status == 404 || plan.status == 410 || plan.status == 200 else {
                return SandboxAnswer(status: plan.status, json: "{}")
            }
            let reason = plan.status == 200 ? plan.reason ?? "Unavailable" : "NotRegistered"
            return SandboxAnswer(
                status: 200,
                json:
                    "{\"multicast_id\":1,\"success\":0,\"failure\":1,\"canonical_ids\":0,\"results\":[{\"error\":\"\(reason)\"}]}"
            )
        } accepted: {
            SandboxAnswer(
                status: 200,
                json:
                    "{\"multicast_id\":1,\"success\":1,\"failure\":0,\"canonical_ids\":0,\"results\":[{\"message_id\":\"0:\(self.sent)\"}]}"
            )
        }
    }

    /// Google's token service: a signed assertion for an access token.
    private func grant(_ request: SandboxRequest) -> SandboxAnswer {
        let form = String(decoding: request.body, as: UTF8.self)
        let fields = Dictionary(
            form.split(separator: "&").map { pair in
                let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
                return (parts.first ?? "", parts.count > 1 ? parts[1].removingPercentEncoding ?? "" : "")
            }, uniquingKeysWith: { first, _ in first })
        guard fields["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer",
            fields["assertion"]?.split(separator: ".").count == 3
        else { return SandboxAnswer(status: 400, json: "{\"error\":\"invalid_grant\"}") }
        let token = "sandbox-\(UInt64.random(in: .min ... .max))"
        accessTokens.insert(token)
        return SandboxAnswer(
            status: 200, json: "{\"access_token\":\"\(token)\",\"expires_in\":3599,\"token_type\":\"Bearer\"}")
    }

    // MARK: Recording and failing

    /// What Apple says with a status when the plan names no reason.
    private static func apnsReason(_ status: Int) -> String {
        switch status {
        case 400: "BadDeviceToken"
        case 403: "InvalidProviderToken"
        case 404: "BadPath"
        case 410: "Unregistered"
        case 413: "PayloadTooLarge"
        case 429: "TooManyRequests"
        case 503: "ServiceUnavailable"
        default: "InternalServerError"
        }
    }

    private static func fcmCode(_ status: Int) -> String {
        switch status {
        case 400: "INVALID_ARGUMENT"
        case 401: "UNAUTHENTICATED"
        case 403: "SENDER_ID_MISMATCH"
        case 404, 410: "UNREGISTERED"
        case 429: "QUOTA_EXCEEDED"
        case 503: "UNAVAILABLE"
        default: "INTERNAL"
        }
    }

    private func conclude(
        _ request: SandboxRequest, service: String, token: String, fault: FailurePlan?,
        failed: (FailurePlan) -> SandboxAnswer, accepted: () -> SandboxAnswer
    ) -> SandboxAnswer {
        sent += 1
        let plan = fault ?? takePlan(for: token)
        var answer = plan.map { $0.status == 200 && $0.reason == nil ? accepted() : failed($0) } ?? accepted()
        answer.fault = plan?.action
        answer.delay = .milliseconds(plan?.delay_ms ?? 0)
        if let wait = plan?.retry_after { answer.headers["retry-after"] = "\(wait)" }
        let record = PushRecord(
            time: clock(), service: service, token: token, type: kind(of: request.body),
            headers: request.headers.filter { $0.key.hasPrefix("apns-") },
            credential: String(
                decoding: HashAlgorithm.sha256.hexDigest(of: Array((request.headers["authorization"] ?? "").utf8))
                    .prefix(12),
                as: UTF8.self), body: String(decoding: request.body, as: UTF8.self), status: answer.status,
            connection: request.connection, version: request.version)
        if records.count >= Self.recordLimit { records.removeFirst(Self.recordLimit / 2) }
        records.append(record)
        recorded(record)
        return answer
    }

    /// A plan made over the control resources, or a token that says itself how it fails: `fail-503-...`.
    private func takePlan(for token: String) -> FailurePlan? {
        if var plan = plans[token] {
            guard let times = plan.times else { return plan }
            plan.times = times - 1
            plans[token] = times > 1 ? plan : nil
            return plan
        }
        let words = token.split(separator: "-")
        guard words.count >= 2, words[0] == "fail", let status = Int(words[1]) else { return nil }
        return FailurePlan(status: status)
    }

    private func object(_ bytes: [UInt8]) -> [String: Any]? {
        (try? JSONSerialization.jsonObject(with: Data(bytes))) as? [String: Any]
    }

    private func kind(of body: [UInt8]) -> String {
        let payload = object(body) ?? [:]
        let message = payload["message"] as? [String: Any] ?? payload
        for key in ["data", "acme"] {
            if let type = (message[key] as? [String: Any])?["type"] as? String { return type }
        }
        return "other"
    }

    // MARK: Control

    private func control(_ request: SandboxRequest, _ path: [String]) -> SandboxAnswer {
        switch (request.method, path.first, path.count) {
        case ("GET", "pushes", 1):
            let wanted = URLComponents(string: request.target)?.queryItems?.first { $0.name == "token" }?.value
            let found = records.filter { wanted == nil || $0.token == wanted }
            return SandboxAnswer(
                status: 200, json: String(decoding: (try? JSONEncoder().encode(found)) ?? Data(), as: UTF8.self))
        case ("DELETE", "pushes", 1):
            records = []
            return SandboxAnswer(status: 200, json: "{}")
        case ("PUT", "tokens", 2):
            guard let plan = try? JSONDecoder().decode(FailurePlan.self, from: Data(request.body)) else {
                return SandboxAnswer(status: 400, json: "{\"error\":\"expected a failure plan\"}")
            }
            plans[path[1].removingPercentEncoding ?? path[1]] = plan
            return SandboxAnswer(status: 200, json: "{}")
        case ("DELETE", "tokens", 2):
            plans[path[1].removingPercentEncoding ?? path[1]] = nil
            return SandboxAnswer(status: 200, json: "{}")
        default: return SandboxAnswer(status: 404, json: "{}")
        }
    }
}
