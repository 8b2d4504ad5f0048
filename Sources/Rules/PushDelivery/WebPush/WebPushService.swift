/// Describes web push as a push provider. Each web push subscription names its own server.
extension WebPushSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.webPush] }
    package static var platforms: Set<PushPlatform> { [.web] }
    package static var credentialKeys: String { ".vapid-key-file" }

    /// The name of the app for subscriptions whose hosts phones choose.
    static let unifiedPush = "unifiedpush"
    package static var chosenHostsApp: String? { unifiedPush }

    package func apps(of provider: PushProvider) -> [PushAppSettings] {
        let listed = PushAppSettings(WebPushApp(self))
        guard hasChosenHosts else { return [listed] }
        return [listed, PushAppSettings(named: Self.unifiedPush, params: [Self.unifiedPush], UnifiedPushApp(self))]
    }

    package var acceptance: any TokenAcceptance { WebPushAcceptance(self) }
    package var files: [PushFile] { .named(signingKey: (keyFile, key: "vapid-key-file"), authorities: caFile) }
}

/// The rules for all web push subscriptions at hosts in the list `hosts`, which the daemon treats as one app.
package final class WebPushApp: PushAppRules {
    package let settings: WebPushSettings

    init(_ settings: WebPushSettings) { self.settings = settings }

    package func request(_ context: PayloadContext) -> PushRendering { WebPushRequest.make(context, settings) }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        WebPushReason.outcome(of: answer, retryAfter)
    }

    package var baseURL: String? { nil }
    package func origin(of token: PushToken) -> String? { WebPushToken(token, allowedAt: settings.hosts)?.origin }
    package var connection: PushConnectionSettings {
        PushConnectionSettings(authorityFile: settings.caFile, proxy: settings.proxy)
    }
    package var limits: ProviderLimits { settings.limits }
    package var asksForDeviceCode: Bool { settings.payload == .tenDarts }
    package func afterEnd(of token: PushToken) -> AfterEnd { settings.afterEnd }
    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { settings.payload.afterLateInvite(wish) }
}
