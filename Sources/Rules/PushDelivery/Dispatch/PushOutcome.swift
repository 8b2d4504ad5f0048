package import Bytes
package import Timekeeping

/// The result of a push, according to the provider's answer. The daemon's next step depends on the outcome.
package enum PushOutcome: Hashable, Sendable {
    /// The provider has accepted the push, with the given id if the provider assigns ids.
    case accepted(ByteString?)
    /// The provider has accepted the push, and has returned a new token for later pushes (the canonical id in FCM's
    /// legacy interface).
    case acceptedWithNewToken(ByteString)
    /// The app is gone from the device since the time `since`; `nil` if the provider reports no time. The daemon
    /// removes the dead token's contact if ``shouldDropToken(since:registeredAt:)`` is true.
    case tokenDead(since: UnixTime?)
    /// The push can be tried again, but not before the given time has passed.
    case retry(after: Duration?)
    /// The provider refused the daemon's short-lived credential as outdated. The daemon makes a new credential for one
    /// more try of the push.
    case renewCredential
    /// The provider refuses the daemon's credentials, and the operator must correct them. The daemon keeps the token of
    /// a push that failed because of credentials.
    case credentialsRefused(String)
    /// The token belongs to another app, project or environment. The daemon keeps a foreign token until the provider
    /// has accepted a push of the app, because a setting may be wrong.
    case foreignToken(String)
    /// No connection to the provider is possible: its certificate is not trusted, or a file in the settings cannot be
    /// used. The daemon keeps the token, because the operator must correct the settings.
    case noConnection(String)
    /// The provider refuses the content that the daemon has written. The daemon keeps the token of a push with refused
    /// content.
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

/// Whether the daemon removes a token that the provider reports as dead. A token that the device has registered after
/// the reported time is kept. For its status 410, Apple requires this comparison with the time of the registration.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
