/// Tests with an OPTIONS request whether the operator's push server answers. The trial does not test the signature and
/// the header fields, because only a real push could test them.
extension HTTPPushApp {
    package var trials: [CredentialTrial] {
        guard let baseURL else { return [] }
        return [
            CredentialTrial(
                ProviderRequest(method: "OPTIONS", url: "\(baseURL)/", headers: [], body: []), showsCredential: false)
        ]
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        .anyAnswer(answer, "your server checks the signature and the header fields only when it gets a push")
    }
}
