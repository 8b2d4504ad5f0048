package import Settings

/// The rules of one app at its push service: the form of its requests, and the meaning of answers.
///
/// Rules are classes, and ``PushApp`` calls them through this protocol. Each push costs a few such calls, which is
/// little beside its HTTP request.
package protocol PushAppRules: AnyObject, Sendable {
    /// Writes the request of one try.
    func request(_ context: PayloadContext) -> PushRendering
    /// The outcome that an answer means, see ``PushApp/outcome(of:isProven:now:)``.
    func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome

    /// Requests that show whether the provider takes our credentials, and that reach no phone.
    var trials: [CredentialTrial] { get }
    /// The verdict on the answer to a trial.
    func verdict(onTrial answer: ProviderAnswer) -> TrialVerdict

    /// The scheme, host and port of the server for all requests; `nil` if each token names its own server.
    var baseURL: String? { get }
    /// The server that this token names, if the app has no ``baseURL``; `nil` for a token that cannot be pushed.
    func origin(of token: PushToken) -> String?
    var connection: PushConnectionSettings { get }
    var limits: ProviderLimits { get }

    /// Whether payloads carry a code. The app names its device by that code when it reports on a push.
    var asksForDeviceCode: Bool { get }
    /// The message for a phone that did not register before the call's end. The settings decide; without a setting, the
    /// app's type decides.
    func afterEnd(of token: PushToken) -> AfterEnd
    /// Whether a call stays in the list of missed calls after a late INVITE. `wish` is the setting, or `nil` for the
    /// default.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite
    /// Whether a push to that token can carry a list of missed calls (A28).
    func carriesLists(_ token: PushToken) -> Bool
}

extension PushAppRules {
    package func origin(of token: PushToken) -> String? { nil }
    package var asksForDeviceCode: Bool { false }
    package func carriesLists(_ token: PushToken) -> Bool { true }
}

/// The settings of all connections of an app.
package struct PushConnectionSettings: Sendable {
    /// The file with the authority that must have issued the server's certificate; `nil` for the authorities of the
    /// system.
    package var authorityFile: String?
    /// The client certificate for connections to the server.
    package var certificateFile: String?
    package var keyFile: String?
    /// How requests reach the server; `nil`: as the setting for all providers says.
    package var proxy: PushProxy?
    /// The secrets that sign each request: the new secret, and the one that it replaces.
    package var secrets: [Secret] = []
}
