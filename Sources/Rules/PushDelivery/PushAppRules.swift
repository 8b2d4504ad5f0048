package import Settings

/// The rules of one app at its push provider: how the daemon builds requests, and how it interprets answers.
///
/// Each provider implements the protocol ``PushAppRules`` by a class, which ``PushApp`` uses. The dynamic method calls
/// through the protocol cost little compared with the HTTP request of a push.
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
    /// The server that a token names, if the app has no ``baseURL``; `nil` for a token to which no push can be sent.
    func origin(of token: PushToken) -> String?
    var connection: PushConnectionSettings { get }
    var limits: ProviderLimits { get }

    /// Whether payloads contain a code for the device, so that the app can send the code when it reports about a push.
    var asksForDeviceCode: Bool { get }
    /// How the daemon notifies a phone of a call's end if the phone did not register before: by the app's setting or,
    /// if the app has none, by the default for payload format and token.
    func afterEnd(of token: PushToken) -> AfterEnd
    /// Whether a call stays in the list of missed calls, although the phone got the INVITE after the end of the call.
    /// The parameter `wish` is the setting of the app, or `nil` for the app's default.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite
    /// Whether a push to the token can carry a list of missed calls (A28).
    func carriesLists(_ token: PushToken) -> Bool
}

extension PushAppRules {
    package func origin(of token: PushToken) -> String? { nil }
    package var asksForDeviceCode: Bool { false }
    package func carriesLists(_ token: PushToken) -> Bool { true }
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
    /// The secrets with which each request is signed: the current one, and the previous one until the receiver has the
    /// current one.
    package var secrets: [Secret] = []
}
