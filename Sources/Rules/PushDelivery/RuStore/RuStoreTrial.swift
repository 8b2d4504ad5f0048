/// Tests whether RuStore accepts the service token, by a push to a token that no device has.
extension RuStoreApp {
    /// A push token that no device has.
    private static let nobody = "sippushd-trial"

    package var trials: [CredentialTrial] {
        guard let project = settings.projectID else { return [] }
        return [
            CredentialTrial(
                ProviderRequest(
                    url: "\(settings.baseURL)/v1/projects/\(project)/messages:send",
                    headers: ProviderRequest.Header.onlyJSON,
                    body: Array(
                        "{\"message\":{\"token\":\"\(Self.nobody)\",\"android\":{\"ttl\":\"0s\"},\"data\":{}}}".utf8)
                ))
        ]
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        switch outcome(of: answer, nil, isProven: false) {
        // RuStore checks the push token only after the service token.
        case .accepted, .acceptedWithNewToken, .tokenDead: .works
        case .credentialsRefused(let reason): .refused(reason, cure: Self.cure)
        case .foreignToken(let reason): .refused(reason, cure: Self.cure)
        case .payloadRefused(let reason): .reached("the server answers \(reason)")
        case .renewCredential, .retry, .noConnection, .noSuitableToken: .providerFails(answer)
        }
    }

    private static let cure =
        "Check project-id and service-token: both are in RuStore's console, under push notifications."
}
