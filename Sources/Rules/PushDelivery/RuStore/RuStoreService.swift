import Bytes

/// Describes RuStore as a push provider.
extension RuStoreSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.ruStore] }
    package static var platforms: Set<PushPlatform> { [.android] }
    package static var tokenKeys: String { "project-id" }
    package static var credentialKeys: String { ".service-token" }

    package func apps(of provider: PushProvider) -> [PushAppSettings] {
        [PushAppSettings(params: projects, RuStoreApp(self))]
            + otherApps.map { PushAppSettings(named: $0.key, params: $0.value.projects, RuStoreApp($0.value)) }
    }

    package var acceptance: any TokenAcceptance { RuStoreAcceptance(self) }

    package var files: [PushFile] {
        ([self] + otherApps.map(\.value)).flatMap { [PushFile].named(authorities: $0.caFile) }
    }

    package var notes: [String] {
        Self.unreachable(otherApps.map { ($0.key, $0.value.projects) }, first: projects, "push.rustore", "project-id")
    }

    private var projects: [String] { [projectID].compactMap(\.self) }

    private var otherApps: [(key: String, value: RuStoreSettings)] {
        apps.filter(\.value.enabled).sorted { $0.key < $1.key }
    }
}

/// The rules for one RuStore project.
package final class RuStoreApp: PushAppRules {
    package let settings: RuStoreSettings
    private let requests: RuStoreRequest

    init(_ settings: RuStoreSettings) {
        self.settings = settings
        requests = RuStoreRequest(settings)
    }

    package func request(_ context: PayloadContext) -> PushRendering { requests.make(context) }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        RuStoreReason.outcome(of: answer, retryAfter, isProven: isProven)
    }

    package var baseURL: String? { settings.baseURL }
    package var connection: PushConnectionSettings {
        PushConnectionSettings(authorityFile: settings.caFile, proxy: settings.proxy)
    }
    package var limits: ProviderLimits { settings.limits }
    package var asksForDeviceCode: Bool { settings.payload == .tenDarts }

    /// By default, Linphone's apps get an INVITE and a CANCEL after a call's end, because Flexisip sends both.
    package func afterEnd(of token: PushToken) -> AfterEnd {
        settings.afterEnd ?? (settings.payload == .linphone ? .inviteCancel : .none)
    }

    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { settings.payload.afterLateInvite(wish) }
}
