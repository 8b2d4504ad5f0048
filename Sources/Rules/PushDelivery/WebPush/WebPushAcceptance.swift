/// Which web push subscriptions are taken: those whose URL leads to one of the hosts of the settings (T12).
struct WebPushAcceptance: TokenAcceptance {
    private let hosts: [WebPushHost]

    init(_ settings: WebPushSettings) { hosts = settings.hosts }

    func problem(with token: PushToken) -> TokenProblem? {
        WebPushToken(token, allowedAt: hosts) == nil ? .webPushResource : nil
    }
}
