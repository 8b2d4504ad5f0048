/// The push settings that registrations need: which tokens belong to our apps, and the values for the answer to a
/// REGISTER.
///
/// It does not say whether a provider is switched on, because operators change that while the daemon runs. The form of a
/// provider's token and the rule for its apps stand in the provider's folder.
package struct PushAcceptance: Equatable, Sendable {
    private let settings: PushSettings
    /// What each provider's folder says, by the provider's number.
    private let services: [any TokenAcceptance]
    /// The public key (RFC 8292) that subscriptions are to be made for, in base64url.
    package var vapidKey: String?

    /// Accepts tokens that need no setting.
    package init() { self.init(PushSettings()) }

    /// - Parameter settings: with the projects of the service accounts, if these are known.
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

    /// Why the token cannot be pushed by one of our apps; `nil` when it may be.
    package func problem(with token: PushToken) -> TokenProblem? { self[token.provider].problem(with: token) }

    package static func == (left: PushAcceptance, right: PushAcceptance) -> Bool {
        left.settings == right.settings && left.vapidKey == right.vapidKey
    }
}
