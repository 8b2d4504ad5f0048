import Bytes

/// Describes Acrobits' push server as a push provider.
extension AcrobitsSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.acrobits] }
    package static var platforms: Set<PushPlatform> { [] }

    package func apps(of provider: PushProvider) -> [PushAppSettings] { [PushAppSettings(AcrobitsApp(self))] }

    package var acceptance: any TokenAcceptance { AcrobitsAcceptance() }
    package var files: [PushFile] { .named(authorities: caFile) }
}

/// Accepts every push token that has the format of Acrobits' push server, because the daemon does not know which apps
/// exist there.
struct AcrobitsAcceptance: TokenAcceptance {
    func problem(with token: PushToken) -> TokenProblem? {
        guard !token.param.isEmpty else { return .acrobitsParamMissing }
        guard let read = try? AcrobitsToken(token) else { return .acrobitsToken }
        let tokens = [read.calls, read.other].compactMap { $0?.deviceToken }
        return tokens.allSatisfy(\.isBase64Text) ? nil : .acrobitsToken
    }
}

/// The rules for all apps behind Acrobits' push server; the daemon treats these apps as one app.
package final class AcrobitsApp: PushAppRules {
    private let settings: AcrobitsSettings

    init(_ settings: AcrobitsSettings) { self.settings = settings }

    package func request(_ context: PayloadContext) -> PushRendering { AcrobitsRequest.make(context, settings) }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        AcrobitsReason.outcome(of: answer, retryAfter)
    }

    package var baseURL: String? { settings.baseURL }
    package var connection: PushConnectionSettings {
        PushConnectionSettings(authorityFile: settings.caFile, proxy: settings.proxy)
    }
    package var limits: ProviderLimits { settings.limits }
    package func afterEnd(of token: PushToken) -> AfterEnd { settings.afterEnd }

    /// Whether a call stays in the list of missed calls after the phone got its INVITE late. By default, a call with a
    /// late INVITE is removed from the list of missed calls, because Acrobits' apps keep their own list.
    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { wish ?? .none }

    package func carriesLists(_ token: PushToken) -> Bool { (try? AcrobitsToken(token))?.other != nil }
}
