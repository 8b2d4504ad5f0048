package import Bytes
package import Timekeeping

/// The result of a push, according to the provider's answer. The outcome of a push decides the daemon's next step.
package enum PushOutcome: Hashable, Sendable {
    /// The provider has accepted the push, and may have assigned the given id to the push.
    case accepted(ByteString?)
    /// The provider has accepted the push, and has returned a new token for later pushes (the canonical id in FCM's
    /// legacy interface).
    case acceptedWithNewToken(ByteString)
    /// The provider reports that the app is gone from the device; `since` is the time of the app's removal, if the
    /// provider reports that time. The daemon removes the contact of the dead push token if
    /// ``shouldDropToken(since:registeredAt:)`` is true.
    case tokenDead(since: UnixTime?)
    /// The push can be tried again, but not before the given time has passed.
    case retry(after: Duration?)
    /// The provider refused the daemon's short-lived credential as outdated. The daemon makes a new credential for one
    /// more try.
    case renewCredential
    /// The provider refuses the daemon's credentials, and the operator must correct them. If the provider refuses the
    /// daemon's credentials, the daemon keeps the push token.
    case credentialsRefused(String)
    /// The push provider reports that the push token belongs to a different app, project or environment. A provider may
    /// also refuse a token because of a wrong setting of the daemon, so the daemon keeps the token until the provider
    /// has accepted a push of the app.
    case foreignToken(String)
    /// The settings allow no connection to the provider: its certificate is not trusted, or a file in the settings
    /// cannot be used. The push failed because of wrong settings, which the operator must correct. If no connection is
    /// possible, the daemon keeps the push token.
    case noConnection(String)
    /// The push provider refuses the content of the push, because the daemon wrote wrong content. If the provider
    /// refuses the content, the daemon keeps the push token.
    case payloadRefused(String)
    /// The device has no token for the push's kind of message.
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

/// Whether the daemon removes a token that its provider reports as dead. The token is kept if the device has registered
/// it after the time that the provider reports. The rule for tokens that were registered again is Apple's rule for the
/// status 410 of its service.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
