import JSON

/// What became of a push at Acrobits' mediator: a code in the body, HTTP's status only tells of the request.
package enum AcrobitsReason: Hashable, Sendable {
    case accepted, unregistered, badRequest, credentials, busy, serverError
    /// One that is not in the mediator's table as we know it.
    case unknown(Int64)

    package init(_ code: Int64) {
        self =
            switch code {
            case 200: .accepted
            case 404: .unregistered
            case 400: .badRequest
            case 401, 403: .credentials
            case 429: .busy
            case 500...599: .serverError
            default: .unknown(code)
            }
    }

    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?) -> PushOutcome {
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        let text = body?["response"]?.string.map { String($0.prefix(200)) }
        guard (200...299).contains(answer.status) else { return .unexplained(answer.status, text, retryAfter) }
        // An answer without a code is not the mediator's.
        guard let code = code(body) else { return .retry(after: retryAfter) }
        let reason = text ?? "code \(code)"
        switch AcrobitsReason(code) {
        case .accepted: return .accepted(nil)
        case .unregistered: return .tokenDead(since: nil)
        case .badRequest, .unknown: return .payloadRefused(reason)
        case .credentials: return .credentialsRefused(reason)
        case .busy, .serverError: return .retry(after: retryAfter)
        }
    }

    /// Older documents call it `status`; either may be written as a text.
    private static func code(_ body: JSONValue?) -> Int64? {
        for name in ["code", "status"] {
            if let code = body?[name]?.integer ?? body?[name]?.string.flatMap({ Int64($0) }) { return code }
        }
        return nil
    }
}
