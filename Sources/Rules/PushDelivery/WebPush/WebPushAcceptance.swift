/// Decides which web push subscriptions are accepted: their URL must lead to one of the hosts in the settings (T12).
struct WebPushAcceptance: Hashable {
    private let hosts: [WebPushHost]

    init(_ settings: WebPushSettings) { hosts = settings.hosts }

    func problem(with token: PushToken) -> TokenProblem? {
        WebPushToken(token, allowedAt: hosts) == nil ? .webPushResource : nil
    }
}
