import Bytes

/// Acrobits' mediator as a push service.
extension AcrobitsSettings: PushServiceSettings {
    package static var providers: [PushProvider] { [.acrobits] }
    package static var platforms: Set<PushPlatform> { [] }

    package func apps(of provider: PushProvider) -> [PushAppSettings] { [PushAppSettings(AcrobitsApp(self))] }

    package var acceptance: any TokenAcceptance { AcrobitsAcceptance() }
    package var files: [PushFile] { .named(authorities: caFile) }
}

/// Accepts any token that has the mediator's form.
struct AcrobitsAcceptance: TokenAcceptance {
    func problem(with token: PushToken) -> TokenProblem? {
        guard !token.param.isEmpty else { return .acrobitsParamMissing }
        guard let read = try? AcrobitsToken(token) else { return .acrobitsToken }
        let tokens = [read.calls, read.other].compactMap { $0?.deviceToken }
        return tokens.allSatisfy(\.isBase64Text) ? nil : .acrobitsToken
    }
}

/// All apps behind the mediator.
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

    /// Apps of Acrobits keep their own list of calls, so by default a late INVITE removes the call from our list.
    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { wish ?? .none }

    package func carriesLists(_ token: PushToken) -> Bool { (try? AcrobitsToken(token))?.other != nil }
}
