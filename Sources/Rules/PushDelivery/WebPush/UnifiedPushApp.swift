/// The rules for web push subscriptions at hosts that phones choose (UnifiedPush), which the daemon treats as one app.
///
/// The requests are those of web push. Each host has its own queue, breaker, rate and state, because anybody with a
/// phone can choose a host (T46).
package final class UnifiedPushApp: PushAppRules {
    package let settings: WebPushSettings
    private let hosts: WebPushHosts

    /// The maximum number of requests to one host that wait for answers.
    private static let requestLimit = 16

    init(_ settings: WebPushSettings) {
        var settings = settings
        // A payload in a format of the daemon contains the Call-ID and the time of sending.
        if settings.payload == .ecss10 { settings.payload = .ecss10Extended }
        self.settings = settings
        hosts = WebPushHosts(settings)
    }

    private func subscription(_ token: PushToken) -> WebPushToken? {
        guard case .chosen(let subscription, _) = hosts.judge(token) else { return nil }
        return subscription
    }

    package func request(_ context: PayloadContext) -> PushRendering {
        guard let subscription = subscription(context.push.token) else { return .impossible(.noSuitableToken) }
        return WebPushRequest.make(context, to: subscription, settings.payload)
    }

    package func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome {
        if (300...399).contains(answer.status) {
            return .payloadRefused("status \(answer.status): the daemon follows no redirect")
        }
        return WebPushReason.outcome(of: answer, retryAfter)
    }

    package var baseURL: String? { nil }
    package func origin(of token: PushToken) -> String? { subscription(token)?.origin }
    package var connection: PushConnectionSettings {
        PushConnectionSettings(authorityFile: settings.caFile, proxy: PushProxy.none)
    }
    package var limits: ProviderLimits {
        var limits = ProviderLimits()
        limits.requests = Self.requestLimit
        limits.queue = settings.hostQueue
        return limits
    }
    package var chosenHosts: ChosenHostRules? { ChosenHostRules(rate: settings.hostRate) }
    package func isPrivate(_ token: PushToken) -> Bool {
        guard case .chosen(_, let isPrivate) = hosts.judge(token) else { return false }
        return isPrivate
    }
    package var asksForDeviceCode: Bool { settings.payload == .tenDarts }
    package func afterEnd(of token: PushToken) -> AfterEnd { settings.afterEnd }
    package func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite { settings.payload.afterLateInvite(wish) }

    /// The trial requests: one for each push server of the operator's own network whose full name is in the settings.
    package var trials: [CredentialTrial] { settings.privateHosts.compactMap(\.trial) }

    package func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict { .ofWebPush(answer) }
}

/// The limits for each host that phones choose.
package struct ChosenHostRules: Hashable, Sendable {
    /// The maximum number of requests to one host in a second.
    package let rate: Int
}
