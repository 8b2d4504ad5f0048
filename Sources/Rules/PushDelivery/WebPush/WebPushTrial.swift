/// Tests whether web push services answer. A trial cannot test the VAPID key, because push services compare it with a
/// subscription only when a push is sent.
extension WebPushApp {
    /// The trial requests: one for each push service whose full host name is in the settings.
    package var trials: [CredentialTrial] { settings.hosts.compactMap(\.trial) }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict { .ofWebPush(answer) }
}

extension WebPushHost {
    /// The trial request to the host; `nil` if the setting names no full host name.
    var trial: CredentialTrial? {
        guard !isSuffix else { return nil }
        let shown = port == Self.standardPort ? "" : ":\(port)"
        return CredentialTrial(
            ProviderRequest(method: "GET", url: "https://\(name)\(shown)/", headers: [], body: []),
            of: name, showsCredential: false)
    }
}

extension TrialVerdict {
    static func ofWebPush(_ answer: ProviderAnswer) -> TrialVerdict {
        .anyAnswer(answer, "the push service compares the key with a subscription only when a push is sent")
    }
}
