/// Tests the Firebase credentials with a message that is marked as a test. Google checks the message, but delivers it
/// to no phone.
extension FCMApp {
    /// A topic without subscribers; for the legacy interface, a push token that no device has.
    private static let name = "sippushd-trial"

    package var trials: [CredentialTrial] {
        if settings.bodyFormat == .legacy {
            return [
                CredentialTrial(
                    ProviderRequest(
                        url: "\(settings.baseURL)/fcm/send", headers: ProviderRequest.Header.onlyJSON,
                        body: Array("{\"to\":\"\(Self.name)\",\"dry_run\":true}".utf8)))
            ]
        }
        guard let project = settings.projectID else { return [] }
        return [
            CredentialTrial(
                ProviderRequest(
                    url: "\(settings.baseURL)/v1/projects/\(project)/messages:send",
                    headers: ProviderRequest.Header.onlyJSON,
                    body: Array("{\"validate_only\":true,\"message\":{\"topic\":\"\(Self.name)\"}}".utf8)))
        ]
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        let outcome = outcome(of: answer, nil, isProven: false)
        switch outcome {
        case .accepted, .acceptedWithNewToken: return .works
        // The legacy interface checks the key before the token, so an answer about the token shows that the key is
        // right.
        case .tokenDead where settings.bodyFormat == .legacy, .foreignToken where settings.bodyFormat == .legacy:
            return .works
        case .foreignToken(let reason):
            return .refused(reason, cure: "Google knows no such project: check project-id and service-account-file.")
        case .renewCredential: return .refused("UNAUTHENTICATED", cure: Self.accountCure)
        case .credentialsRefused(let reason):
            return .refused(
                reason, cure: settings.bodyFormat == .legacy ? "Check server-key." : Self.permissionCure)
        case .payloadRefused(let reason): return .reached("the server answers \(reason)")
        case .tokenDead: return .works
        case .retry, .noConnection, .noSuitableToken: return .providerFails(answer)
        }
    }

    private static let accountCure =
        "Google does not take the access token: is service-account-file of the right project, and was its key deleted?"
    private static let permissionCure =
        "Give the service account the right to send messages, and switch the FCM V1 interface on: docs/Providers.md, Firebase."
}
