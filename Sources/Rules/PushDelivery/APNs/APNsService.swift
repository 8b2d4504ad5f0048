/// Describes Apple's push service. Apple's production environment and its sandbox are separate providers.
extension APNsSettings: NamedApps, PayloadChoice {
    package static var providers: [PushProvider] { [.apns, .apnsDevelopment] }
    package static var platforms: Set<PushPlatform> { [.apple] }
    package static var tokenKeys: String { "topics and environment" }
    package static var credentialKeys: String { ".key-id, team-id and key-file" }

    package static var group: String { "push.apns" }
    package static var paramKey: String { "topics" }

    package var params: [String] { topics }
    package var ownFiles: [PushFile] {
        .named(
            signingKey: (keyFile, key: "key-file"), certificate: certFile, privateKey: certKeyFile,
            authorities: caFile) + feedback.files
    }
    package func rules(of provider: PushProvider) -> any PushAppRules { APNsApp(self, provider) }

    package var acceptance: any TokenAcceptance { APNsAcceptance(self) }

    package var notes: [String] {
        unreachableApps
            + (topics + apps.values.flatMap(\.topics)).filter { $0.hasSuffix(".voip") }.map {
                "push.apns: topics: \($0): expected the bundle identifier without .voip"
            }
    }

    package var profile: PayloadProfile { payload }
}

extension FeedbackSettings {
    fileprivate var files: [PushFile] {
        endpoint == nil ? [] : .named(certificate: certFile, privateKey: certKeyFile, authorities: caFile)
    }
}

/// The rules for one app in one of Apple's environments.
package final class APNsApp: PayloadChoiceRules {
    package let settings: APNsSettings
    let provider: PushProvider
    private let requests: APNsRequest
    package let baseURL: String?

    init(_ settings: APNsSettings, _ provider: PushProvider) {
        self.settings = settings
        self.provider = provider
        requests = APNsRequest(settings, provider)
        baseURL = settings.url(of: provider)
    }

    package func request(_ context: PayloadContext) -> PushRendering { requests.make(context) }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        APNsReason.outcome(of: answer, retryAfter, isProven: isProven)
    }

    package var connection: PushConnectionSettings {
        PushConnectionSettings(
            authorityFile: settings.caFile, certificateFile: settings.certFile, keyFile: settings.certKeyFile,
            proxy: settings.proxy)
    }

    /// By default, a phone with a VoIP token gets INVITE and CANCEL after a call's end, because iOS ends an app whose
    /// VoIP push shows no call. Linphone's apps also get both by default, as Flexisip sends them.
    package func afterEnd(of token: PushToken) -> AfterEnd {
        if let wished = settings.afterEnd { return wished }
        let tokens = try? APNsToken(token, withoutService: settings.tokenService)
        return tokens?.voip != nil || settings.payload == .linphone ? .inviteCancel : .none
    }

    /// Apple delivers only a few silent pushes an hour to a phone.
    package var refreshPushesPerHour: Int { 3 }

    package func carriesLists(_ token: PushToken) -> Bool {
        (try? APNsToken(token, withoutService: settings.tokenService))?.remote != nil
    }
}
