/// Describes Firebase Cloud Messaging as a push provider. The FCM server can also be a gateway with Google's legacy
/// interface.
extension FCMSettings: NamedApps, PayloadChoice {
    package static var providers: [PushProvider] { [.fcm] }
    package static var platforms: Set<PushPlatform> { [.android] }
    package static var tokenKeys: String { "params and the project of service-account-file" }
    package static var credentialKeys: String { ".service-account-file" }

    package static var group: String { "push.fcm" }
    package static var paramKey: String { "params" }

    package var allParams: [String] { params + [projectID].compactMap(\.self) }
    package var ownFiles: [PushFile] {
        .named(account: bodyFormat == .v1 ? serviceAccountFile : nil, authorities: caFile)
    }
    package func rules(of provider: PushProvider) -> any PushAppRules { FCMApp(self) }

    package var acceptance: any TokenAcceptance { FCMAcceptance(self) }
}

/// The rules for one Firebase project with its apps.
package final class FCMApp: PayloadChoiceRules {
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
}
