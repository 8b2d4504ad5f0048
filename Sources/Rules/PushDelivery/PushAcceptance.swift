/// The push settings that registrations need: which tokens belong to our apps, and the values for the answer to a
/// REGISTER.
///
/// This type does not say whether a provider is switched on, because operators change that while the daemon runs. The
/// provider's folder defines the form of its tokens and the rules for its apps.
package struct PushAcceptance: Equatable, Sendable {
    private let settings: PushSettings
    /// The rules of each provider's folder, by the provider's number.
    private let services: [any TokenAcceptance]
    /// The public key (RFC 8292) for which subscriptions must be made, in base64url.
    package var vapidKey: String?

    /// Accepts the tokens that need no settings.
    package init() { self.init(PushSettings()) }

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

    /// Why none of our apps can push to the token; `nil` if one can.
    package func problem(with token: PushToken) -> TokenProblem? { self[token.provider].problem(with: token) }

    package static func == (left: PushAcceptance, right: PushAcceptance) -> Bool {
        left.settings == right.settings && left.vapidKey == right.vapidKey
    }
}
