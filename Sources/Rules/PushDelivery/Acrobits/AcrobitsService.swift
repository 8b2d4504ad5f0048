import Bytes

/// Describes Acrobits' mediator as a push service.
extension AcrobitsSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.acrobits] }
    package static var platforms: Set<PushPlatform> { [] }

    package func apps(of provider: PushProvider) -> [PushAppSettings] { [PushAppSettings(AcrobitsApp(self))] }

    package var acceptance: any TokenAcceptance { AcrobitsAcceptance() }
    package var files: [PushFile] { .named(authorities: caFile) }
}

/// Accepts any token in the mediator's format.
struct AcrobitsAcceptance: TokenAcceptance {
    func problem(with token: PushToken) -> TokenProblem? {
        guard !token.param.isEmpty else { return .acrobitsParamMissing }
        guard let read = try? AcrobitsToken(token) else { return .acrobitsToken }
        let tokens = [read.calls, read.other].compactMap { $0?.deviceToken }
        return tokens.allSatisfy(\.isBase64Text) ? nil : .acrobitsToken
    }
}

/// The single app of this service: all apps that get pushes through the mediator.
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

    /// The default is to remove the call from the daemon's list after a late INVITE, because Acrobits' apps keep a list
    /// of their own.
    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { wish ?? .none }

    package func carriesLists(_ token: PushToken) -> Bool { (try? AcrobitsToken(token))?.other != nil }
}
