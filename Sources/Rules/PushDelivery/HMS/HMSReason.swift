import Bytes
import JSON

/// Converts an answer of Huawei's Push Kit into an outcome. The member `code` of the answer decides, because Huawei
/// often answers failures with the HTTP status 200.
enum HMSReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        // An answer with a status of 500 or more reports a failure of Huawei's server, and nothing about the token.
        guard answer.status < 500, answer.status != 429 else { return .retry(after: retryAfter) }
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        guard let body, let code = text(body["code"]) else {
            return withoutCode(answer.status, retryAfter)
        }
        let message = body["msg"]?.string ?? ""
        let reason = message.isEmpty ? code : "\(code): \(message.prefix(200))"
        switch code {
        case "80000000": return .accepted(body["requestId"]?.string.map { ByteString($0) })
        case "80100000": return partly(message, reason, isProven: isProven)
        // A parameter or the content of the push is wrong, the content is forbidden, the body is too long, or the list
        // of tokens is wrong.
        case "80100001", "80100003", "80100004", "80100016", "80300008", "80300010": return .payloadRefused(reason)
        case "80200001", "80200003": return .renewCredential
        case "80300002": return .credentialsRefused(reason)
        // All tokens are invalid, or belong to another app.
        case "80300007": return .foreignToken(reason, isProven: isProven)
        case "80600003", "81000001": return .retry(after: retryAfter)
        // Huawei's published table does not list the code, so the status decides.
        default:
            return answer.status == 401 ? .renewCredential : .unexplained(answer.status, reason, retryAfter)
        }
    }

    /// The outcome of a push if Huawei accepted only some of the request's tokens. Each request of the daemon has one
    /// token, so an illegal token is this token.
    private static func partly(_ message: String, _ reason: String, isProven: Bool) -> PushOutcome {
        guard let counts = try? JSONValue(Array(message.utf8)) else {
            return .foreignToken(reason, isProven: isProven)
        }
        if counts["illegal_tokens"]?.array?.isEmpty == false { return .tokenDead(since: nil) }
        let hasFailed = text(counts["failure"]).map { $0 != "0" } ?? true
        return hasFailed ? .foreignToken(reason, isProven: isProven) : .accepted(nil)
    }

    private static func withoutCode(_ status: Int, _ retryAfter: Duration?) -> PushOutcome {
        switch status {
        case 401: .renewCredential
        case 404: .credentialsRefused("status 404: the app-id is unknown, or Push Kit is not enabled for the app")
        // An answer without a code is not Huawei's, and does not show that Huawei accepted the push.
        case 200...299: .retry(after: retryAfter)
        default: .unexplained(status, nil, retryAfter)
        }
    }

    /// A code or a count, which Huawei's servers write as text or as a number.
    private static func text(_ value: JSONValue?) -> String? {
        value?.string ?? value?.integer.map { "\($0)" }
    }
}
