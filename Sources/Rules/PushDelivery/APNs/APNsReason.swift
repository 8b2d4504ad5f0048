import Bytes
import JSON
import Timekeeping

/// Converts Apple's answer to a push into a ``PushOutcome``, by the reason in the answer's body.
enum APNsReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard answer.status != 200 else { return .accepted(answer.id.map { ByteString($0) }) }
        // A status of 500 or more reports a failure of Apple's server, and nothing about the token.
        guard answer.status < 500 else { return .retry(after: retryAfter) }
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        guard let text = body?["reason"]?.string else {
            guard answer.status == 410 else { return .unexplained(answer.status, nil, retryAfter) }
            return .tokenDead(since: timestamp(body))
        }
        switch text {
        case "Unregistered", "ExpiredToken": return .tokenDead(since: timestamp(body))
        case "BadDeviceToken", "DeviceTokenNotForTopic": return .foreignToken(text, isProven: isProven)
        case "ExpiredProviderToken": return .renewCredential
        case "BadCertificate", "BadCertificateEnvironment", "Forbidden", "InvalidProviderToken", "MissingProviderToken",
            "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken", "TopicDisallowed":
            return .credentialsRefused(text)
        case "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic", "DuplicateHeaders",
            "InvalidPushType", "MissingDeviceToken", "MissingTopic", "PayloadEmpty", "BadPath", "MethodNotAllowed",
            "PayloadTooLarge":
            return .payloadRefused(text)
        case "IdleTimeout": return .retry(after: .zero)
        case "TooManyProviderTokenUpdates", "TooManyRequests", "InternalServerError", "ServiceUnavailable", "Shutdown":
            return .retry(after: retryAfter)
        // The status decides, because Apple's published table does not list the reason.
        default:
            guard answer.status == 410 else { return .unexplained(answer.status, text, retryAfter) }
            return .tokenDead(since: timestamp(body))
        }
    }

    /// The time since which the token is dead; Apple sends this time in milliseconds, and all other times in seconds.
    private static func timestamp(_ body: JSONValue?) -> UnixTime? {
        body?["timestamp"]?.integer.map { UnixTime(milliseconds: $0) }
    }
}
