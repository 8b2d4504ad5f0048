/// Describes the operator's own push servers as a push provider. Each of the operator's push servers has a name in the
/// settings, and `pn-param` must contain this name.
extension HTTPPushSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.http] }
    package static var platforms: Set<PushPlatform> { Set(PushPlatform.allCases) }

    package func apps(of provider: PushProvider) -> [PushAppSettings] {
        namedApps.map { PushAppSettings(named: $0.key, params: [$0.key], HTTPPushApp($0.value)) }
    }

    package var acceptance: any TokenAcceptance { HTTPPushAcceptance(self) }

    package var files: [PushFile] {
        namedApps.flatMap { _, app in
            [PushFile].named(certificate: app.certFile, privateKey: app.certKeyFile, authorities: app.caFile)
        }
    }

    private var namedApps: [(key: String, value: HTTPPushAppSettings)] { apps.sorted { $0.key < $1.key } }
}

/// The rules for one of the operator's own push servers.
package final class HTTPPushApp: PushAppRules {
    private let settings: HTTPPushAppSettings

    init(_ settings: HTTPPushAppSettings) { self.settings = settings }

    package func request(_ context: PayloadContext) -> PushRendering { HTTPPushRequest.make(context, settings) }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        HTTPPushReason.outcome(of: answer, settings, retryAfter, isProven: isProven)
    }

    package var baseURL: String? { settings.url?.baseURL }

    package var connection: PushConnectionSettings {
        PushConnectionSettings(
            authorityFile: settings.caFile, certificateFile: settings.certFile, keyFile: settings.certKeyFile,
            proxy: settings.proxy,
            secrets: [settings.secret, settings.previousSecret].compactMap(\.self))
    }

    package var limits: ProviderLimits { settings.limits }
    package func afterEnd(of token: PushToken) -> AfterEnd { settings.afterEnd }
    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { wish ?? .list }
}
