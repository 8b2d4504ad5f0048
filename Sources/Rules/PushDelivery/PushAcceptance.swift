/// The push settings that registrations need: which tokens belong to our apps, and the values for the answer to a
/// REGISTER.
///
/// It does not contain whether a provider is switched on, because operators change that while the daemon runs. The form
/// of a provider's token and the rule for its apps are in the provider's folder.
package struct PushAcceptance: Hashable, Sendable {
    private let apple: APNsAcceptance
    private let google: FCMAcceptance
    private let webPush: WebPushAcceptance
    private let http: HTTPPushAcceptance
    /// The public key for subscriptions (RFC 8292), in base64url.
    package var vapidKey: String?

    /// Accepts tokens that need no setting.
    package init() { self.init(PushSettings()) }

    /// - Parameter settings: with the projects of the service accounts, if these are known.
    package init(_ settings: PushSettings) {
        apple = APNsAcceptance(settings.apns)
        google = FCMAcceptance(settings.fcm)
        webPush = WebPushAcceptance(settings.webPush)
        http = HTTPPushAcceptance(settings.http)
    }

    /// Why none of our apps can push to the token; `nil` if one can.
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
