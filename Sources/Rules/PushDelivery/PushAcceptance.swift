/// What registrations must know about the push services: which tokens belong to one of our apps, and what the answer to
/// a REGISTER says beside the name of the service.
///
/// It does not say whether a provider is switched on, because operators change that while the daemon runs. The form of a
/// provider's token and the rule for its apps stand in the provider's folder.
package struct PushAcceptance: Hashable, Sendable {
    private let apple: APNsAcceptance
    private let google: FCMAcceptance
    private let webPush: WebPushAcceptance
    private let http: HTTPPushAcceptance
    /// The public key (RFC 8292) that subscriptions are to be made for, in base64url.
    package var vapidKey: String?

    /// Accepts what needs no setting to be accepted.
    package init() { self.init(PushSettings()) }

    /// - Parameter settings: with the projects of the service accounts, as far as these are known.
    package init(_ settings: PushSettings) {
        apple = APNsAcceptance(settings.apns)
        google = FCMAcceptance(settings.fcm)
        webPush = WebPushAcceptance(settings.webPush)
        http = HTTPPushAcceptance(settings.http)
    }

    /// Why the token cannot be pushed by one of our apps; `nil` when it may be.
    package func problem(with token: PushToken) -> TokenProblem? {
        switch token.provider {
        case .apns, .apnsDevelopment: apple.problem(with: token)
        case .fcm: google.problem(with: token)
        case .webPush: webPush.problem(with: token)
        case .acrobits: AcrobitsToken.problem(with: token)
        case .http: http.problem(with: token)
        }
    }
}
