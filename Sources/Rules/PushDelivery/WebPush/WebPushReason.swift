import JSON

/// Maps a web push service's status to an outcome (RFC 8030 section 5, RFC 8292 section 4.2).
enum WebPushReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?) -> PushOutcome {
        switch answer.status {
        // The status of success is 201, or 202 if a receipt was requested.
        case 200...299: return .accepted(nil)
        case 404, 410: return .tokenDead(since: nil)
        default: break
        }
        let reason = reason(answer)
        // The subscription was made for another key of ours. Apple reports this with 400.
        if reason == "VapidPkHashMismatch" { return .credentialsRefused("VapidPkHashMismatch") }
        return .unexplained(answer.status, reason, retryAfter)
    }

    /// The reason in an answer of Apple or Mozilla. Other services give no reason in a readable form.
    private static func reason(_ answer: ProviderAnswer) -> String? {
        guard answer.body.count <= ProviderAnswer.bodyLimit, let body = try? JSONValue(answer.body) else { return nil }
        return (body["reason"]?.string ?? body["message"]?.string).map { String($0.prefix(200)) }
    }
}
