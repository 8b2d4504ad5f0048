/// A server of the operator judges signature and header fields with a push, whose effect nobody knows. It is asked for its
/// options instead.
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
