/// The push settings that registrations need: which tokens belong to our apps, and the values for the 200 to a
/// REGISTER.
///
/// Whether a provider is switched on is not known here, because operators change that while the daemon runs. Each
/// provider's folder defines the form of its tokens and the rules for its apps.
package struct PushAcceptance: Equatable, Sendable {
    private let settings: PushSettings
    /// The rules for each provider's tokens, by the provider's number.
    private let services: [any TokenAcceptance]
    /// The public VAPID key (RFC 8292), in base64url, for which devices must make their web push subscriptions.
    package var vapidKey: String?

    /// Creates rules that accept the tokens that need no settings.
    package init() { self.init(PushSettings()) }

    /// Creates the rules from the settings.
    ///
    /// - Parameter settings: the push settings, with the projects of the service accounts if these are known.
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

    /// The reason why none of our apps can push to the token; `nil` if an app can.
    package func problem(with token: PushToken) -> TokenProblem? { self[token.provider].problem(with: token) }

    package static func == (left: PushAcceptance, right: PushAcceptance) -> Bool {
        left.settings == right.settings && left.vapidKey == right.vapidKey
    }
}
