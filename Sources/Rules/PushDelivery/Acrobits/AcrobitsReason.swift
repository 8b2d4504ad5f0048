import JSON

/// Converts the answer of Acrobits' push server into a ``PushOutcome``. The code in the answer's body decides, not the
/// HTTP status.
enum AcrobitsReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?) -> PushOutcome {
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        let text = body?["response"]?.string.map { String($0.prefix(200)) }
        guard (200...299).contains(answer.status) else { return .unexplained(answer.status, text, retryAfter) }
        // The push is tried again, because an answer without a code does not come from Acrobits' push server.
        guard let code = code(body) else { return .retry(after: retryAfter) }
        let reason = text ?? "code \(code)"
        switch code {
        case 200: return .accepted(nil)
        case 404: return .tokenDead(since: nil)
        case 401, 403: return .credentialsRefused(reason)
        case 429, 500...599: return .retry(after: retryAfter)
        // The code is 400, or Acrobits' published table does not list the code.
        default: return .payloadRefused(reason)
        }
    }

    /// The code in an answer of Acrobits' push server; the code may be a number or a text. Older documents of Acrobits'
    /// push server call the code `status`.
    private static func code(_ body: JSONValue?) -> Int64? {
        for name in ["code", "status"] {
            if let code = body?[name]?.integer ?? body?[name]?.string.flatMap({ Int64($0) }) { return code }
        }
        return nil
    }
}
