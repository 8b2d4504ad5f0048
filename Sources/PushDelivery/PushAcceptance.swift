import Bytes

/// What registrations must know about the push services: which tokens belong to one of our apps, and what the answer to
/// a REGISTER says beside the name of the service.
///
/// It does not say whether a provider is switched on, because operators change that while the daemon runs.
package struct PushAcceptance: Hashable, Sendable {
    package enum Verdict: Hashable, Sendable {
        case accepted
        /// The token lacks something without which the device cannot be pushed.
        case missingParam
        /// The app or the server that the token names is not one of ours.
        case foreign
        /// The parameters of the contact contradict each other.
        case unreadable
    }

    private var webPushHosts: [WebPushHost] = []
    private var apps = Set<ByteString>()
    /// The public key (RFC 8292) that subscriptions are to be made for, in base64url.
    package var vapidKey: String?

    /// Accepts nothing that needs a setting to be accepted.
    package init() {}

    package init(_ settings: PushSettings) {
        webPushHosts = settings.webPush.hosts
        apps = Set(settings.http.apps.keys.map { ByteString($0) })
    }

    /// Judges a token by what the settings say about its provider's apps. Apple's and Google's are always accepted.
    package func verdict(on token: PushToken) -> Verdict {
        switch token.provider {
        case .apns, .apnsDevelopment, .fcm: .accepted
        case .webPush: WebPushToken(token, allowedAt: webPushHosts) != nil ? .accepted : .foreign
        case .acrobits:
            token.param.isEmpty ? .missingParam : (try? AcrobitsToken(token)) != nil ? .accepted : .unreadable
        case .http: token.param.isEmpty ? .missingParam : apps.contains(token.param) ? .accepted : .foreign
        }
    }
}
