import JSON

/// Converts RuStore's answer to a push into an outcome, by the HTTP status and then by the member `status`.
enum RuStoreReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard !(200...299).contains(answer.status) else { return .accepted(nil) }
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        // Some of RuStore's servers write the members at the top of the answer, and others under `error`, as FCM does.
        let error = body?["error"] ?? body
        let word = error?["status"]?.string
        let reason = (error?["message"]?.string ?? word).map { String($0.prefix(200)) }
        switch answer.status {
        case 404 where word == "NOT_FOUND" || word == "UNREGISTERED", 410: return .tokenDead(since: nil)
        case 404: return .foreignToken(reason ?? "status 404", isProven: isProven)
        case 400: return word == "UNREGISTERED" ? .tokenDead(since: nil) : .payloadRefused(reason ?? "status 400")
        default: return .unexplained(answer.status, reason, retryAfter)
        }
    }
}
