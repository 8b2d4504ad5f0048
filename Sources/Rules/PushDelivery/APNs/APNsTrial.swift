/// Tests an app's credentials by a push to a token that no device has. Apple checks key, team, topic and environment
/// before the token, so the answer `BadDeviceToken` shows that all four are right.
extension APNsApp {
    /// A push token that Apple assigns to no device.
    private static let token = String(repeating: "0", count: 64)
    /// The body of the test push to Apple. A phone shows nothing for the body of a test push.
    private static let body = Array("{\"aps\":{\"content-available\":1}}".utf8)

    /// The test requests to Apple: one for each topic in the settings; if the settings have no topic, one request
    /// without topic.
    package var trials: [CredentialTrial] {
        guard !settings.topics.isEmpty else { return [trial(of: nil)] }
        return settings.topics.map { trial(of: $0) }
    }

    private func trial(of topic: String?) -> CredentialTrial {
        var headers = [
            ProviderRequest.Header("apns-push-type", "background"), ProviderRequest.Header("apns-priority", "5"),
            ProviderRequest.Header("apns-expiration", "0"),
        ]
        if let topic { headers.append(ProviderRequest.Header("apns-topic", topic)) }
        let url = "\(baseURL ?? "")/3/device/\(Self.token)"
        return CredentialTrial(
            ProviderRequest(url: url, headers: headers, body: Self.body),
            of: topic.map { settings.topics.count > 1 ? "topic \($0)" : "" } ?? "")
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        switch APNsReason.outcome(of: answer, nil, isProven: false) {
        case .accepted, .acceptedWithNewToken, .foreignToken, .tokenDead: .works
        case .payloadRefused("MissingTopic"):
            .reached("push.apns.topics is empty, so Apple was asked about no topic")
        case .payloadRefused(let reason) where reason == "BadTopic":
            .refused(reason, cure: Self.topicCure)
        case .credentialsRefused(let reason) where isOfOtherEnvironment(reason):
            .reached(
                "\(reason): the credentials are for Apple's production only, so devices with apns.dev get no pushes")
        case .credentialsRefused(let reason): .refused(reason, cure: Self.cure(of: reason))
        case .renewCredential:
            .refused("ExpiredProviderToken", cure: "Set this machine's clock and keep it synchronized: timedatectl.")
        case .payloadRefused(let reason): .reached("Apple answers \(reason)")
        case .retry, .noConnection, .noSuitableToken: .providerFails(answer)
        }
    }

    /// Whether Apple refused a test push because the key is valid for production only. Such a key is enough for all
    /// apps except builds from Xcode.
    private func isOfOtherEnvironment(_ reason: String) -> Bool {
        provider == .apnsDevelopment && settings.environment == .production
            && ["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken", "BadCertificateEnvironment"].contains(reason)
    }

    private static let topicCure =
        "Correct topics: they are bundle identifiers of apps of this team, without .voip. Check team-id, too."

    private static func cure(of reason: String) -> String {
        switch reason {
        case "TopicDisallowed": topicCure
        case "BadCertificate": "Check cert-file and cert-key-file: Apple must have issued them for this app."
        case "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken":
            "The credentials belong to Apple's other environment: set environment, or use a key for both."
        default:
            "key-id, team-id and key-file must belong together, and the key must not be revoked. A wrong clock has the same effect: timedatectl."
        }
    }
}
