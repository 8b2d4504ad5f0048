import Bytes
import JSON

/// Converts an answer of FCM's HTTP v1 interface into a ``PushOutcome``, by `errorCode` in the body or else by the more
/// general `status`.
enum FCMReason {
    /// How long the daemon waits if the quota is used up and the answer has no waiting time. Google asks for one
    /// minute.
    private static let quotaPause: Duration = .seconds(60)

    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard answer.status != 200 else { return .accepted(name(answer.body).map { ByteString($0) }) }
        // A status of 500 or more reports a failure of Google's server, and nothing about the token.
        guard answer.status < 500 else { return .retry(after: retryAfter) }
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        let error = body?["error"]
        guard let text = code(error) ?? error?["status"]?.string else {
            return answer.status == 401 ? .renewCredential : .unexplained(answer.status, nil, retryAfter)
        }
        switch text {
        case "UNREGISTERED": return .tokenDead(since: nil)
        case "SENDER_ID_MISMATCH", "NOT_FOUND": return .foreignToken(text, isProven: isProven)
        case "INVALID_ARGUMENT":
            return namesToken(error) ? .tokenDead(since: nil) : .payloadRefused(message(error) ?? text)
        case "UNAUTHENTICATED": return .renewCredential
        case "THIRD_PARTY_AUTH_ERROR", "PERMISSION_DENIED": return .credentialsRefused(message(error) ?? text)
        case "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED": return .retry(after: retryAfter ?? quotaPause)
        case "UNSPECIFIED_ERROR", "UNAVAILABLE", "INTERNAL": return .retry(after: retryAfter)
        // The status decides, because Google's published table does not list the reason.
        default:
            return answer.status == 401 ? .renewCredential : .unexplained(answer.status, text, retryAfter)
        }
    }

    // MARK: Bodies

    /// The name of the accepted message in `{"name":"projects/…/messages/…"}`. For speed, the name is parsed without
    /// building a JSON tree.
    private static func name(_ body: [UInt8]) -> String? {
        guard body.count <= ProviderAnswer.bodyLimit, var reader = try? JSONReader(body),
            (try? reader.next()) == .objectStart
        else { return nil }
        while case .key(let key)? = try? reader.next() {
            guard reader.isEqual(key, to: "name") else {
                guard (try? reader.skipValue()) != nil else { return nil }
                continue
            }
            guard case .string(let name)? = try? reader.next() else { return nil }
            return reader.string(name)
        }
        return nil
    }

    private static func code(_ error: JSONValue?) -> String? {
        for detail in error?["details"]?.array ?? [] {
            if let code = detail["errorCode"]?.string { return code }
        }
        return nil
    }

    /// Whether Google's error is about the push token, and not about another part of the request.
    private static func namesToken(_ error: JSONValue?) -> Bool {
        for detail in error?["details"]?.array ?? [] {
            for violation in detail["fieldViolations"]?.array ?? [] where violation["field"]?.string == "message.token"
            {
                return true
            }
        }
        return error?["message"]?.string?.contains("not a valid FCM registration token") ?? false
    }

    private static func message(_ error: JSONValue?) -> String? {
        error?["message"]?.string.map { String($0.prefix(200)) }
    }
}
