/// The push settings for registrations: which push tokens belong to apps in the settings, and the values in the 200 to
/// a REGISTER.
///
/// ``PushAcceptance`` does not know whether a provider is switched on, because operators switch providers while the
/// daemon runs. Each provider's rules for tokens and apps are in the provider's folder.
package struct PushAcceptance: Equatable, Sendable {
    private let settings: PushSettings
    /// Each provider's rules for tokens, in the order of the providers' numbers.
    private let services: [any TokenAcceptance]
    /// The public VAPID key (RFC 8292) in base64url. Devices need the public VAPID key to make web push subscriptions.
    package var vapidKey: String?
    /// Whether phones of the domain may use the app of a token (T41.4); `nil` if phones of the domain may use all apps.
    package var isOfDomain: (@Sendable (PushToken) -> Bool)?

    /// Creates the rules from the default settings.
    package init() { self.init(PushSettings()) }

    /// Creates the rules for accepted push tokens from the push settings.
    ///
    /// - Parameter settings: the push settings, with the project from each service account file if the project is
    ///   known.
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

    /// Why no app in the settings can push to the token; `nil` if an app can push to the token.
    package func problem(with token: PushToken) -> TokenProblem? {
        if let problem = self[token.provider].problem(with: token) { return problem }
        guard let isOfDomain, !isOfDomain(token) else { return nil }
        return .otherDomain
    }

    /// The server that the token's phone has chosen; `nil` if the settings name the server of the token.
    package func chosenHost(of token: PushToken) -> String? { self[token.provider].chosenHost(of: token) }

    /// The maximum number of servers that the devices of one user can choose.
    package static let chosenHostLimit = 4

    package static func == (left: PushAcceptance, right: PushAcceptance) -> Bool {
        left.settings == right.settings && left.vapidKey == right.vapidKey
    }
}
