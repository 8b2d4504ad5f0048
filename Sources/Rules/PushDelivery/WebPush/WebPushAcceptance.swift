/// Accepts web push subscriptions whose URL has one of the hosts in the settings (T12).
struct WebPushAcceptance: TokenAcceptance {
    private let hosts: [WebPushHost]

    init(_ settings: WebPushSettings) { hosts = settings.hosts }

    func problem(with token: PushToken) -> TokenProblem? {
        WebPushToken(token, allowedAt: hosts) == nil ? .webPushResource : nil
    }
}
