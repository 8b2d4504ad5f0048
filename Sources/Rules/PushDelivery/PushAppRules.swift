package import Settings

/// The rules of one app at its push provider: how the daemon builds requests, and how it interprets answers.
///
/// Each push provider has a class with the protocol ``PushAppRules``, which ``PushApp`` uses.
package protocol PushAppRules: AnyObject, Sendable {
    /// Builds the request for one try of a push.
    func request(_ context: PayloadContext) -> PushRendering
    /// Converts the provider's answer to a push into an outcome, see ``PushApp/outcome(of:isProven:now:)``.
    func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome

    /// The requests that show whether the provider accepts the app's credentials, and that reach no phone.
    var trials: [CredentialTrial] { get }
    /// Converts the provider's answer to a trial request into a verdict on the credentials.
    func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict

    /// The scheme, host and port of the server for all requests; `nil` if each token names its server.
    var baseURL: String? { get }
    /// The server that a token names, for an app without ``baseURL``; `nil` for a token to which no push can be sent.
    func origin(of token: PushToken) -> String?
    var connection: PushConnectionSettings { get }
    var limits: ProviderLimits { get }

    /// Whether payloads contain the device's code, which the app needs for its reports about pushes.
    var asksForDeviceCode: Bool { get }
    /// How a phone that did not register learns of a call's end: by the app's setting, or else by the default for the
    /// payload format and the token.
    func afterEnd(of token: PushToken) -> AfterEnd
    /// Whether a call stays in the list of missed calls after the phone got its INVITE late. The parameter `wish` is
    /// the setting of the app, or `nil` for the app's default.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite
    /// The limits for each server that tokens name, if phones choose the servers; `nil` if the settings name the servers.
    var chosenHosts: ChosenHostRules? { get }
    /// Whether the operator has named the token's server as a server of the operator's own network.
    func isPrivate(_ token: PushToken) -> Bool
    /// Whether a push to the token can carry a list of missed calls (A28).
    func carriesLists(_ token: PushToken) -> Bool
    /// The maximum number of refresh pushes that the provider tolerates for one phone in an hour.
    var refreshPushesPerHour: Int { get }
}

extension PushAppRules {
    package func origin(of token: PushToken) -> String? { nil }
    package var chosenHosts: ChosenHostRules? { nil }
    package func isPrivate(_ token: PushToken) -> Bool { false }
    package var asksForDeviceCode: Bool { false }
    package func carriesLists(_ token: PushToken) -> Bool { true }
    package var refreshPushesPerHour: Int { 12 }
}

/// The settings for an app's connections to its push server.
package struct PushConnectionSettings: Sendable {
    /// The file of the certificate authorities that are trusted for the server's certificate; `nil` for the authorities
    /// of the system.
    package var authorityFile: String?
    /// The file of the certificate that the daemon shows to the server.
    package var certificateFile: String?
    package var keyFile: String?
    /// The HTTP proxy for requests to the server; `nil` if the setting for all providers applies.
    package var proxy: PushProxy?
    /// The secrets that sign each request: the current secret and, while the receiver does not have it yet, the
    /// previous secret.
    package var secrets: [Secret] = []
}
