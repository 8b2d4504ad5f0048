/// Tests whether push services can be reached. A trial cannot test the key, which a push service compares with a
/// subscription only when a push is sent.
extension WebPushApp {
    /// One trial for each push service whose full host name is in the settings.
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
