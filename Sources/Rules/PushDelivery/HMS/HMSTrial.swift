import JSON

/// Tests whether Huawei accepts the app's credentials, by a request that Huawei only checks.
extension HMSApp {
    /// A push token that no device has.
    private static let nobody = "sippushd-trial"

    package var trials: [CredentialTrial] {
        guard settings.appID != nil else { return [] }
        var token: [UInt8] = []
        token.append(jsonString: Self.nobody)
        return [
            CredentialTrial(
                ProviderRequest(
                    url: settings.sendURL, headers: ProviderRequest.Header.onlyJSON, body: HMSRequest.test(token)))
        ]
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        switch outcome(of: answer, nil, isProven: true) {
        // Huawei checks the push token only after the access token and the app.
        case .accepted, .acceptedWithNewToken, .tokenDead: .works
        case .renewCredential: .refused("Huawei does not take the access token for this app-id", cure: Self.cure)
        case .credentialsRefused(let reason): .refused(reason, cure: Self.rightsCure)
        case .foreignToken(let reason): .refused(reason, cure: Self.cure)
        case .payloadRefused(let reason): .reached("the server answers \(reason)")
        case .retry where (200...299).contains(answer.status):
            .reached("the server's answer has no code: is push.hms.endpoint Huawei's push server?")
        case .retry, .noConnection, .noSuitableToken: .providerFails(answer)
        }
    }

    private static let cure =
        "Check app-id and client-secret: both are in AppGallery Connect, under project settings, in the app's information."
    private static let rightsCure =
        "Switch Push Kit on for the app in AppGallery Connect, and check app-id: docs/Providers.md, Huawei."
}
