import Bytes
import JSON

/// Why FCM's old interface did not take a push: `results[0].error` of an answer that is 200 all the same.
package enum FCMLegacyReason: Hashable, Sendable {
    case notRegistered, invalidRegistration, missingRegistration, mismatchSenderID, invalidPackageName
    case messageTooBig, invalidDataKey, invalidTTL, invalidParameters
    case unavailable, internalServerError, deviceMessageRateExceeded, topicsMessageRateExceeded
    case invalidAPNsCredential
    /// One that is not in Google's table as we know it.
    case unknown(String)

    package init(_ text: String) {
        self =
            switch text {
            case "NotRegistered": .notRegistered
            case "InvalidRegistration": .invalidRegistration
            case "MissingRegistration": .missingRegistration
            case "MismatchSenderId": .mismatchSenderID
            case "InvalidPackageName": .invalidPackageName
            case "MessageTooBig": .messageTooBig
            case "InvalidDataKey": .invalidDataKey
            case "InvalidTtl": .invalidTTL
            case "InvalidParameters": .invalidParameters
            case "Unavailable": .unavailable
            case "InternalServerError": .internalServerError
            case "DeviceMessageRateExceeded": .deviceMessageRateExceeded
            case "TopicsMessageRateExceeded": .topicsMessageRateExceeded
            case "InvalidApnsCredential": .invalidAPNsCredential
            default: .unknown(text)
            }
    }

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
        switch FCMLegacyReason(text) {
        case .notRegistered, .invalidRegistration: return .tokenDead(since: nil)
        case .mismatchSenderID, .invalidPackageName: return .foreignToken(text, isProven: isProven)
        case .missingRegistration, .messageTooBig, .invalidDataKey, .invalidTTL, .invalidParameters, .unknown:
            return .payloadRefused(text)
        case .unavailable, .internalServerError, .deviceMessageRateExceeded, .topicsMessageRateExceeded:
            return .retry(after: retryAfter)
        case .invalidAPNsCredential: return .credentialsRefused(text)
        }
    }
}
