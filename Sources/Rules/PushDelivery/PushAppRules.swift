package import Settings

/// What is particular to one app at its push service: how its requests are written, and what answers mean.
///
/// Classes, which ``PushApp`` asks through the protocol: a few times for each push, which is nothing beside its request.
package protocol PushAppRules: AnyObject, Sendable {
    /// Writes the request of one try.
    func request(_ context: PayloadContext) -> PushRendering
    /// What an answer means, see ``PushApp/outcome(of:isProven:now:)``.
    func outcome(of answer: ProviderAnswer, _ retryAfter: Duration?, isProven: Bool) -> PushOutcome

    /// Scheme, host and port of the server that all requests go to; `nil` if each token names its own.
    var baseURL: String? { get }
    /// The server that this token names, if the app has no ``baseURL``; `nil`, too, for a token that cannot be pushed.
    func origin(of token: PushToken) -> String?
    var connection: PushConnectionSettings { get }
    var limits: PushLimits { get }

    /// Whether payloads carry a code by which the app names the device when it reports what became of a push.
    var asksForDeviceCode: Bool { get }
    /// What a phone gets that has not come before the call's end: what the settings say or, where they say nothing, what suits the
    /// app.
    func afterEnd(of token: PushToken) -> AfterEnd
    /// The `wish` is what the settings say.
    func afterLateInvite(_ wish: AfterLateInvite?) -> AfterLateInvite
    /// Whether a push to that token can carry a list of missed calls (A28).
    func carriesLists(_ token: PushToken) -> Bool
}

extension PushAppRules {
    package func origin(of token: PushToken) -> String? { nil }
    package var asksForDeviceCode: Bool { false }
    package func carriesLists(_ token: PushToken) -> Bool { true }
}

/// What all connections of an app have in common.
package struct PushConnectionSettings: Sendable {
    /// Whom the server's certificate must come from; `nil`: the authorities of the system.
    package var authorityFile: String?
    /// The certificate that we show.
    package var certificateFile: String?
    package var keyFile: String?
    /// They sign each request: the new one, and the one that it replaces.
    package var secrets: [Secret] = []
}
