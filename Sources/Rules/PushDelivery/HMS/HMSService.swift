import Bytes

/// Describes Huawei's Push Kit as a push provider.
extension HMSSettings: NamedApps, PayloadChoice {
    package static var providers: [PushProvider] { [.hms] }
    package static var platforms: Set<PushPlatform> { [.android] }
    package static var tokenKeys: String { paramKey }
    package static var credentialKeys: String { ".client-secret" }

    package var profile: PayloadProfile { payload }
    package static var group: String { "push.hms" }
    package static var paramKey: String { "app-id" }

    package var params: [String] { [appID].compactMap(\.self) }
    package var ownFiles: [PushFile] { .named(authorities: caFile) }
    package func rules(of provider: PushProvider) -> any PushAppRules { HMSApp(self) }

    package var acceptance: any TokenAcceptance {
        ParamAcceptance(
            self, isToken: \.isHMSToken, noToken: .hmsToken, noParam: .hmsParamMissing, noApp: .hmsApp)
    }
}

/// The rules for one app at Huawei.
package final class HMSApp: PayloadChoiceRules {
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
}
