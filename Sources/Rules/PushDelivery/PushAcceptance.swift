/// The push settings that registrations need: which push tokens belong to the apps in the settings, and the values for
/// the 200 to a REGISTER.
///
/// ``PushAcceptance`` does not know whether a provider is switched on, because operators change that while the daemon
/// runs. The rules for the tokens and apps of each provider are in the provider's folder.
package struct PushAcceptance: Equatable, Sendable {
    private let settings: PushSettings
    /// The rules for the tokens of each provider, in the order of the providers' numbers.
    private let services: [any TokenAcceptance]
    /// The public VAPID key (RFC 8292) in base64url. Devices need the public VAPID key to make their web push
    /// subscriptions.
    package var vapidKey: String?
    /// Whether phones of the rules' domain may use the app of a token (T41.4); `nil` if phones of the domain may use
    /// all apps.
    package var isOfDomain: (@Sendable (PushToken) -> Bool)?

    /// Creates the rules from the default settings.
    package init() { self.init(PushSettings()) }

    /// Creates the rules for accepted push tokens from the push settings.
    ///
    /// - Parameter settings: the push settings, with the project in each service account's file if it is known.
    package init(_ settings: PushSettings) {
        self.settings = settings
        services = PushProvider.allCases.sorted { $0.number < $1.number }.map { provider in
            guard let service = settings.service(of: provider) else {
                preconditionFailure("PushSettings has no service for \(provider.rawValue)")
            }
            return service.acceptance
        }
    }

    subscript(provider: PushProvider) -> any TokenAcceptance { services[Int(provider.number) - 1] }

    /// The reason why no app in the settings can push to the token; `nil` if an app can.
    package func problem(with token: PushToken) -> TokenProblem? {
        if let problem = self[token.provider].problem(with: token) { return problem }
        guard let isOfDomain, !isOfDomain(token) else { return nil }
        return .otherDomain
    }

    package static func == (left: PushAcceptance, right: PushAcceptance) -> Bool {
        left.settings == right.settings && left.vapidKey == right.vapidKey
    }
}
