import JSON

/// Converts the HTTP status from a web push service into an outcome (RFC 8030 section 5, RFC 8292 section 4.2).
enum WebPushReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?) -> PushOutcome {
        switch answer.status {
        // Push services answer 201, or 202 if a receipt was requested.
        case 200...299: return .accepted(nil)
        case 404, 410: return .tokenDead(since: nil)
        default: break
        }
        let reason = reason(answer)
        // The subscription was made with another VAPID key. If a subscription belongs to a different VAPID key, Apple
        // answers with the status 400.
        if reason == "VapidPkHashMismatch" { return .credentialsRefused("VapidPkHashMismatch") }
        return .unexplained(answer.status, reason, retryAfter)
    }

    /// The reason in the body of an answer from Apple's or Mozilla's push service. No other push service gives a reason
    /// in a known form.
    private static func reason(_ answer: ProviderAnswer) -> String? {
        guard answer.body.count <= ProviderAnswer.bodyLimit, let body = try? JSONValue(answer.body) else { return nil }
        return (body["reason"]?.string ?? body["message"]?.string).map { String($0.prefix(200)) }
    }
}
