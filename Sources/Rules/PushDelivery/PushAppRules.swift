package import Settings

/// The rules of one app at its push service: how its requests are written, and what answers mean.
///
/// Rules are classes, and ``PushApp`` calls them through this protocol. Each push needs a few such calls, which cost
/// little compared with its HTTP request.
package protocol PushAppRules: AnyObject, Sendable {
    /// Writes the request for one try of a push.
    func request(_ context: PayloadContext) -> PushRendering
    /// The outcome that an answer means, see ``PushApp/outcome(of:isProven:now:)``.
    func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome

    /// The requests that show whether the provider accepts our credentials, and that reach no phone.
    var trials: [CredentialTrial] { get }
    /// The verdict on the answer to a trial.
    func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict

    /// The scheme, host and port of the server for all requests; `nil` if each token names its own server.
    var baseURL: String? { get }
    /// The server that a token names, if the app has no ``baseURL``; `nil` for a token to which no push can be sent.
    func origin(of token: PushToken) -> String?
    var connection: PushConnectionSettings { get }
    var limits: ProviderLimits { get }

    /// Whether payloads contain a code that identifies the device, which the app sends when it reports about a push.
    var asksForDeviceCode: Bool { get }
    /// The message for a phone that did not register before the call's end, by the settings or else by the kind of app.
    func afterEnd(of token: PushToken) -> AfterEnd
    /// Whether a call stays in the list of missed calls although the phone got a late INVITE. `wish` is the setting, or
    /// `nil` for the default.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite
    /// Whether a push to a token can carry a list of missed calls (A28).
    func carriesLists(_ token: PushToken) -> Bool
}

extension PushAppRules {
    package func origin(of token: PushToken) -> String? { nil }
    package var asksForDeviceCode: Bool { false }
    package func carriesLists(_ token: PushToken) -> Bool { true }
}

/// The settings for the connections of an app to its server.
package struct PushConnectionSettings: Sendable {
    /// The file of the authority that must have issued the server's certificate; `nil` for the authorities of the
    /// system.
    package var authorityFile: String?
    /// The file of the client certificate for connections to the server.
    package var certificateFile: String?
    package var keyFile: String?
    /// The HTTP proxy for requests to the server; with `nil`, the setting for all providers applies.
    package var proxy: PushProxy?
    /// The secrets that sign each request: the present one, and the old one that it replaces.
    package var secrets: [Secret] = []
}
