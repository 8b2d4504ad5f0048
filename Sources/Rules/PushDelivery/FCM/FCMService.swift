/// Describes Firebase Cloud Messaging as a push provider. The FCM server can also be a gateway with Google's legacy
/// interface.
extension FCMSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.fcm] }
    package static var platforms: Set<PushPlatform> { [.android] }
    package static var tokenKeys: String { "params and the project of service-account-file" }
    package static var credentialKeys: String { ".service-account-file" }

    package func apps(of provider: PushProvider) -> [PushAppSettings] {
        [PushAppSettings(params: names, FCMApp(self))]
            + otherApps.map { PushAppSettings(named: $0.key, params: $0.value.names, FCMApp($0.value)) }
    }

    package var acceptance: any TokenAcceptance { FCMAcceptance(self) }

    package var files: [PushFile] {
        ([self] + otherApps.map(\.value)).flatMap { app in
            [PushFile].named(
                account: app.bodyFormat == .v1 ? app.serviceAccountFile : nil, authorities: app.caFile)
        }
    }

    package var notes: [String] {
        Self.unreachable(otherApps.map { ($0.key, $0.value.params) }, first: params, "push.fcm", "params")
    }

    private var otherApps: [(key: String, value: FCMSettings)] {
        apps.filter(\.value.enabled).sorted { $0.key < $1.key }
    }
}

/// The rules for one Firebase project with its apps.
package final class FCMApp: PushAppRules {
    package let settings: FCMSettings
    private let requests: Requests

    private enum Requests {
        case v1(FCMRequest)
        case legacy(FCMLegacyRequest)
    }

    init(_ settings: FCMSettings) {
        self.settings = settings
        requests =
            switch settings.bodyFormat {
            case .v1: .v1(FCMRequest(settings))
            case .legacy: .legacy(FCMLegacyRequest(settings))
            }
    }

    package func request(_ context: PayloadContext) -> PushRendering {
        switch requests {
        case .v1(let requests): requests.make(context)
        case .legacy(let requests): requests.make(context)
        }
    }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        switch requests {
        case .v1: FCMReason.outcome(of: answer, retryAfter, isProven: isProven)
        case .legacy: FCMLegacyReason.outcome(of: answer, retryAfter, isProven: isProven)
        }
    }

    package var baseURL: String? { settings.baseURL }
    package var connection: PushConnectionSettings {
        PushConnectionSettings(authorityFile: settings.caFile, proxy: settings.proxy)
    }
    package var limits: ProviderLimits { settings.limits }
    package var asksForDeviceCode: Bool { settings.profile == .tenDarts }

    /// By default, Linphone's apps get an INVITE and a CANCEL after a call's end, because Flexisip sends both.
    package func afterEnd(of token: PushToken) -> AfterEnd {
        settings.afterEnd ?? (settings.profile == .linphone ? .inviteCancel : .none)
    }

    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { settings.profile.afterLateInvite(wish) }
}
