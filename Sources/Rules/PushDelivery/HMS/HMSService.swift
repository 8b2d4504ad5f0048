import Bytes

/// Describes Huawei's Push Kit as a push provider.
extension HMSSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.hms] }
    package static var platforms: Set<PushPlatform> { [.android] }
    package static var tokenKeys: String { "app-id" }
    package static var credentialKeys: String { ".client-secret" }

    package func apps(of provider: PushProvider) -> [PushAppSettings] {
        [PushAppSettings(params: appIDs, HMSApp(self))]
            + otherApps.map { PushAppSettings(named: $0.key, params: $0.value.appIDs, HMSApp($0.value)) }
    }

    package var acceptance: any TokenAcceptance { HMSAcceptance(self) }

    package var files: [PushFile] {
        ([self] + otherApps.map(\.value)).flatMap { [PushFile].named(authorities: $0.caFile) }
    }

    package var notes: [String] {
        Self.unreachable(otherApps.map { ($0.key, $0.value.appIDs) }, first: appIDs, "push.hms", "app-id")
    }

    private var appIDs: [String] { [appID].compactMap(\.self) }

    private var otherApps: [(key: String, value: HMSSettings)] {
        apps.filter(\.value.enabled).sorted { $0.key < $1.key }
    }
}

/// The rules for one app at Huawei.
package final class HMSApp: PushAppRules {
    package let settings: HMSSettings
    private let requests: HMSRequest

    init(_ settings: HMSSettings) {
        self.settings = settings
        requests = HMSRequest(settings)
    }

    package func request(_ context: PayloadContext) -> PushRendering { requests.make(context) }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        HMSReason.outcome(of: answer, retryAfter, isProven: isProven)
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
