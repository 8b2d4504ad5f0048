import Bytes
import JSON

/// What an answer of FCM's old interface means, by its `results[0].error`. The status is 200 even for errors.
enum FCMLegacyReason {
    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard answer.status == 200 else { return .unexplained(answer.status, nil, retryAfter) }
        // Gateways that only look like FCM may answer 200 with anything.
        guard answer.body.count <= ProviderAnswer.bodyLimit, let body = try? JSONValue(answer.body),
            let result = body["results"]?.array?.first
        else { return .accepted(nil) }
        guard let text = result["error"]?.string else {
            if let token = result["registration_id"]?.string, !token.isEmpty {
                return .acceptedWithNewToken(ByteString(token))
            }
            return .accepted(result["message_id"]?.string.map { ByteString($0) })
        }
        switch text {
        case "NotRegistered", "InvalidRegistration": return .tokenDead(since: nil)
        case "MismatchSenderId", "InvalidPackageName": return .foreignToken(text, isProven: isProven)
        case "Unavailable", "InternalServerError", "DeviceMessageRateExceeded", "TopicsMessageRateExceeded":
            return .retry(after: retryAfter)
        case "InvalidApnsCredential": return .credentialsRefused(text)
        // These are MissingRegistration, MessageTooBig, InvalidDataKey, InvalidTtl, InvalidParameters, and new ones.
        default: return .payloadRefused(text)
        }
    }
}
