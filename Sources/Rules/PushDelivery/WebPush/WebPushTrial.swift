/// Tests whether web push services answer. A trial cannot test the VAPID key, because push services compare it with a
/// subscription only when a push is sent.
extension WebPushApp {
    /// The trial requests: one for each push service whose full host name is in the settings.
    package var trials: [CredentialTrial] {
        settings.hosts.filter { !$0.isSuffix }.map { host in
            let port = host.port == WebPushHost.standardPort ? "" : ":\(host.port)"
            return CredentialTrial(
                ProviderRequest(method: "GET", url: "https://\(host.name)\(port)/", headers: [], body: []),
                of: host.name, showsCredential: false)
        }
    }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict {
        .anyAnswer(answer, "the push service compares the key with a subscription only when a push is sent")
    }
}
