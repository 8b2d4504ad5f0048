/// Tests with an OPTIONS request whether the operator's server answers. The server checks signature and header fields
/// only with a push, whose effect is unknown.
extension HTTPPushApp {
    package var trials: [CredentialTrial] {
        guard let baseURL else { return [] }
        return [
            CredentialTrial(
                ProviderRequest(method: "OPTIONS", url: "\(baseURL)/", headers: [], body: []), showsCredential: false)
        ]
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        .anyAnswer(answer, "your server judges signature and header fields only with a push")
    }
}
