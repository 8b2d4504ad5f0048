/// A push service compares our key with a subscription when a push is sent, and knows nothing of the key before.
extension WebPushApp {
    /// A question to each service that the settings name in full.
    package var trials: [CredentialTrial] {
        settings.hosts.filter { !$0.isSuffix }.map { host in
            let port = host.port == WebPushHost.standardPort ? "" : ":\(host.port)"
            return CredentialTrial(
                ProviderRequest(method: "GET", url: "https://\(host.name)\(port)/", headers: [], body: []),
                of: host.name, showsCredential: false)
        }
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        .anyAnswer(answer, "it compares the key with a subscription only when a push is sent")
    }
}
