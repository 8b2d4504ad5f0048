import Bytes
import JSON

/// What an answer of FCM's old interface means: by `results[0].error` of an answer that is 200 all the same.
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
        // MissingRegistration, MessageTooBig, InvalidDataKey, InvalidTtl, InvalidParameters, and what Google may add.
        default: return .payloadRefused(text)
        }
    }
}
