/// Tests whether Acrobits' push server answers. Acrobits' push server asks for no credentials, so the test checks only
/// the connection.
extension AcrobitsApp {
    package var trials: [CredentialTrial] {
        [
            CredentialTrial(
                ProviderRequest(method: "GET", url: "\(baseURL ?? "")/", headers: [], body: []), showsCredential: false)
        ]
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        .anyAnswer(answer, "Acrobits' push server asks for no credentials")
    }
}
