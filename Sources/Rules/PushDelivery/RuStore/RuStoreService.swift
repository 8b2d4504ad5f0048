import Bytes

/// Describes RuStore as a push provider.
extension RuStoreSettings: NamedApps, PayloadChoice {
    package static var providers: [PushProvider] { [.ruStore] }
    package static var platforms: Set<PushPlatform> { [.android] }
    package static var tokenKeys: String { paramKey }
    package static var credentialKeys: String { ".service-token" }

    package var profile: PayloadProfile { payload }
    package static var group: String { "push.rustore" }
    package static var paramKey: String { "project-id" }

    package var params: [String] { [projectID].compactMap(\.self) }
    package var ownFiles: [PushFile] { .named(authorities: caFile) }
    package func rules(of provider: PushProvider) -> any PushAppRules { RuStoreApp(self) }

    package var acceptance: any TokenAcceptance {
        ParamAcceptance(
            self, isToken: \.isRuStoreToken, noToken: .ruStoreToken, noParam: .ruStoreParamMissing,
            noApp: .ruStoreProject)
    }
}

/// The rules for one RuStore project.
package final class RuStoreApp: PayloadChoiceRules {
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
}
