import Bytes

/// Accepts web push subscriptions whose URL has a host that the settings allow (T12, T46).
struct WebPushAcceptance: TokenAcceptance {
    private let hosts: WebPushHosts

    init(_ settings: WebPushSettings) { hosts = WebPushHosts(settings) }

    func problem(with token: PushToken) -> TokenProblem? {
        switch hosts.judge(token) {
        case .listed, .chosen: nil
        case .refused(let problem): problem
        }
    }

    func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID? {
        guard case .chosen = hosts.judge(token) else { return nil }
        return apps[ByteString(WebPushSettings.unifiedPush)]
    }

    func chosenHost(of token: PushToken) -> String? {
        guard case .chosen(let token, _) = hosts.judge(token) else { return nil }
        return token.origin
    }
}
