package import Bytes
package import Timekeeping

/// The result of a push, according to the provider's answer. The outcome decides what the daemon does next.
package enum PushOutcome: Hashable, Sendable {
    /// The provider has accepted the push, and may have assigned the given id to it.
    case accepted(ByteString?)
    /// The provider has accepted the push, and has returned a new token for later pushes (the canonical id in FCM's
    /// legacy interface).
    case acceptedWithNewToken(ByteString)
    /// The provider reports that the app is gone from the device; `since` is the time of the app's removal, if the
    /// provider reports that time. The daemon removes the contact if ``shouldDropToken(since:registeredAt:)`` is true.
    case tokenDead(since: UnixTime?)
    /// The push can be tried again, but not before the given time has passed.
    case retry(after: Duration?)
    /// The provider refused the daemon's short-lived credential as outdated. The daemon makes a new credential for one
    /// more try.
    case renewCredential
    /// The provider refuses the daemon's credentials, and the operator must correct them. After this outcome, the
    /// daemon keeps the push token.
    case credentialsRefused(String)
    /// The provider says that the token belongs to another app, project or environment. The reason may also be a wrong
    /// setting of the daemon, so the token is kept until the provider has accepted a push of this app.
    case foreignToken(String)
    /// The settings allow no connection to the provider: its certificate is not trusted, or a file in the settings
    /// cannot be used. The operator must correct the settings. After this outcome, the daemon keeps the push token.
    case noConnection(String)
    /// The provider refuses the content of the push, which is the daemon's error. After this outcome, the daemon keeps
    /// the push token.
    case payloadRefused(String)
    /// The device has no token for this kind of push.
    case noSuitableToken

    package var isAccepted: Bool {
        switch self {
        case .accepted, .acceptedWithNewToken: true
        case .tokenDead, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused,
            .noSuitableToken:
            false
        }
    }
}

/// Whether to remove a token that its provider reports as dead. The token is kept if the device has registered it after
/// the time that the provider reports. Apple describes the rule for the answer 410 of its service.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
