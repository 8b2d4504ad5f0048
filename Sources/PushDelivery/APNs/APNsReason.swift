import Bytes
import JSON
import Timekeeping

/// Why APNs did not take a push, in its own words.
package enum APNsReason: Hashable, Sendable {
    case badCollapseID, badDeviceToken, badExpirationDate, badMessageID, badPriority, badTopic
    case deviceTokenNotForTopic, duplicateHeaders, idleTimeout, invalidPushType, missingDeviceToken, missingTopic
    case payloadEmpty, topicDisallowed
    case badCertificate, badCertificateEnvironment, expiredProviderToken, forbidden, invalidProviderToken
    case missingProviderToken, unrelatedKeyID, badEnvironmentKeyID
    case badPath, methodNotAllowed
    case expiredToken, unregistered
    case payloadTooLarge
    case tooManyProviderTokenUpdates, tooManyRequests
    case internalServerError, serviceUnavailable, shutdown
    /// One that is not in Apple's table as we know it.
    case unknown(String)

    package init(_ text: String) {
        self =
            switch text {
            case "BadCollapseId": .badCollapseID
            case "BadDeviceToken": .badDeviceToken
            case "BadExpirationDate": .badExpirationDate
            case "BadMessageId": .badMessageID
            case "BadPriority": .badPriority
            case "BadTopic": .badTopic
            case "DeviceTokenNotForTopic": .deviceTokenNotForTopic
            case "DuplicateHeaders": .duplicateHeaders
            case "IdleTimeout": .idleTimeout
            case "InvalidPushType": .invalidPushType
            case "MissingDeviceToken": .missingDeviceToken
            case "MissingTopic": .missingTopic
            case "PayloadEmpty": .payloadEmpty
            case "TopicDisallowed": .topicDisallowed
            case "BadCertificate": .badCertificate
            case "BadCertificateEnvironment": .badCertificateEnvironment
            case "ExpiredProviderToken": .expiredProviderToken
            case "Forbidden": .forbidden
            case "InvalidProviderToken": .invalidProviderToken
            case "MissingProviderToken": .missingProviderToken
            case "UnrelatedKeyIdInToken": .unrelatedKeyID
            case "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken": .badEnvironmentKeyID
            case "BadPath": .badPath
            case "MethodNotAllowed": .methodNotAllowed
            case "ExpiredToken": .expiredToken
            case "Unregistered": .unregistered
            case "PayloadTooLarge": .payloadTooLarge
            case "TooManyProviderTokenUpdates": .tooManyProviderTokenUpdates
            case "TooManyRequests": .tooManyRequests
            case "InternalServerError": .internalServerError
            case "ServiceUnavailable": .serviceUnavailable
            case "Shutdown": .shutdown
            default: .unknown(text)
            }
    }

    static func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        guard answer.status != 200 else { return .accepted(answer.id.map { ByteString($0) }) }
        // A server in trouble knows nothing about tokens.
        guard answer.status < 500 else { return .retry(after: retryAfter) }
        let body = answer.body.count <= ProviderAnswer.bodyLimit ? try? JSONValue(answer.body) : nil
        guard let text = body?["reason"]?.string else {
            guard answer.status == 410 else { return .unexplained(answer.status, nil, retryAfter) }
            return .tokenDead(since: timestamp(body))
        }
        switch APNsReason(text) {
        case .unregistered, .expiredToken: return .tokenDead(since: timestamp(body))
        case .badDeviceToken, .deviceTokenNotForTopic: return .foreignToken(text, isProven: isProven)
        case .expiredProviderToken: return .renewCredential
        case .badCertificate, .badCertificateEnvironment, .forbidden, .invalidProviderToken, .missingProviderToken,
            .unrelatedKeyID, .badEnvironmentKeyID, .topicDisallowed:
            return .credentialsRefused(text)
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .badTopic, .duplicateHeaders,
            .invalidPushType, .missingDeviceToken, .missingTopic, .payloadEmpty, .badPath, .methodNotAllowed,
            .payloadTooLarge:
            return .payloadRefused(text)
        case .idleTimeout: return .retry(after: .zero)
        case .tooManyProviderTokenUpdates, .tooManyRequests, .internalServerError, .serviceUnavailable, .shutdown:
            return .retry(after: retryAfter)
        case .unknown:
            guard answer.status == 410 else { return .unexplained(answer.status, text, retryAfter) }
            return .tokenDead(since: timestamp(body))
        }
    }

    /// Milliseconds, unlike every other time in this protocol.
    private static func timestamp(_ body: JSONValue?) -> UnixTime? {
        body?["timestamp"]?.integer.map { UnixTime(milliseconds: $0) }
    }
}
