import JSON

/// Imitates FCM's legacy interface, `POST /fcm/send`, which answers with status 200 even if a push failed.
extension ProviderSemantics {
    private static let recipientLimit = 1000
    /// The token of the pushes by which the daemon tests its server key; no device has the token.
    private static let nobody = "sippushd-trial"

    func legacy(_ request: SandboxRequest) -> SandboxAnswer {
        let message = JSONValue.object(in: request.body)
        let type = message?["data"]?["type"]?.string
        if let status = legacyRefusal(request, message) {
            let token = message?["to"]?.string ?? ""
            let reason = status == 401 ? "Unauthorized" : "InvalidParameters"
            record(
                request, service: "fcm", interface: "legacy", token: token, type: type, status: status,
                reason: reason)
            return SandboxAnswer(status: status, json: .members([("error", .string(reason))]))
        }
        let complaint = message.flatMap(Self.complaint)
        var effects = Effects()
        // A failure plan's status that does not concern a single token becomes the status of the whole answer.
        var status = 200
        var renewed: Int64 = 0
        let results = Self.recipients(of: message).map { token -> (token: String, error: String?, result: JSONValue) in
            let refusal =
                token.isEmpty
                ? Refusal(status: 200, reason: "MissingRegistration")
                : token == Self.nobody
                    ? Refusal(status: 200, reason: "InvalidRegistration")
                    : complaint.map { Refusal(status: 200, reason: $0) }
            switch judge(token, refusal, &effects) {
            case .accepted(let id, let registrationID):
                renewed += registrationID == nil ? 0 : 1
                let canonical = registrationID.map { [("registration_id", JSONValue.string($0))] } ?? []
                return (token, nil, .members([("message_id", .string("0:\(id)"))] + canonical))
            case .refused(let refusal):
                let word = Self.word(for: refusal)
                if word.isEmpty { status = refusal.status }
                return (token, word.isEmpty ? "HTTP \(refusal.status)" : word, .members([("error", .string(word))]))
            }
        }
        let failures = results.count { $0.error != nil }
        let answer = effects.applied(
            to: status == 200
                ? SandboxAnswer(
                    status: 200,
                    json: .members([
                        ("multicast_id", .number(1)), ("success", .number(Int64(results.count - failures))),
                        ("failure", .number(Int64(failures))), ("canonical_ids", .number(renewed)),
                        ("results", .array(results.map(\.result))),
                    ])) : SandboxAnswer(status: status))
        for result in results {
            record(
                request, service: "fcm", interface: "legacy", token: result.token, type: type, status: answer.status,
                reason: result.error, isTrial: result.token == Self.nobody)
        }
        return answer
    }

    /// The status that refuses the whole request; `nil` if each recipient gets a result.
    private func legacyRefusal(_ request: SandboxRequest, _ message: JSONValue?) -> Int? {
        guard request.method == "POST" else { return 405 }
        let authorization = request.headers["authorization"] ?? ""
        guard authorization.hasPrefix("key="), authorization.utf8.count > 4 else { return 401 }
        guard let message, !request.isBodyCut, Self.recipients(of: message).count <= Self.recipientLimit else {
            return 400
        }
        return nil
    }

    /// The tokens to which a message is sent; one empty token if the message has no recipient.
    private static func recipients(of message: JSONValue?) -> [String] {
        if let several = message?["registration_ids"]?.array, !several.isEmpty {
            return several.map { $0.string ?? "" }
        }
        return [message?["to"]?.string ?? message?["condition"]?.string ?? ""]
    }

    /// Why the parameters of the message are refused, if they are. The priority 10 is accepted, because ECSS-10 sends
    /// it.
    private static func complaint(about message: JSONValue) -> String? {
        if let ttl = message["time_to_live"] {
            guard let seconds = ttl.integer, (0...ttlLimit).contains(seconds) else { return "InvalidTtl" }
        }
        if let priority = message["priority"] {
            let isKnown =
                priority.string.map { ["high", "normal", "10", "5"].contains($0) }
                ?? priority.integer.map { $0 == 10 || $0 == 5 } ?? false
            guard isKnown else { return "InvalidParameters" }
        }
        guard let data = message["data"] else { return nil }
        guard let members = data.members else { return "InvalidParameters" }
        guard !members.contains(where: { isReserved($0.key) }) else { return "InvalidDataKey" }
        return data.bytes.count <= 4096 ? nil : "MessageTooBig"
    }

    /// The error code for one recipient; empty if the whole answer has an error status.
    private static func word(for refusal: Refusal) -> String {
        switch refusal.status {
        // A failure plan may have Apple's status (410) or Google's (404) for a dead token.
        case 404, 410: "NotRegistered"
        case 200: refusal.reason
        default: ""
        }
    }
}
