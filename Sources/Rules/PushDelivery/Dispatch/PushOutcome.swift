package import Bytes
package import Timekeeping

/// The result of a push, as the provider's answer means it. The outcome decides what the daemon does next.
package enum PushOutcome: Hashable, Sendable {
    /// The provider has accepted the push, and may have assigned an id.
    case accepted(ByteString?)
    /// The provider has accepted the push, and has returned a new token for later pushes (the canonical id of FCM's
    /// legacy interface).
    case acceptedWithNewToken(ByteString)
    /// The provider reports that the app is gone from the device, perhaps with the time since then. The contact is
    /// dropped if ``shouldDropToken(since:registeredAt:)`` agrees.
    case tokenDead(since: UnixTime?)
    /// The push may be tried again, but not before the given time has passed.
    case retry(after: Duration?)
    /// The provider refused our short-lived credential. A new credential is made for one more try.
    case renewCredential
    /// The provider refuses our credentials, and the operator must correct them. The token stays.
    case credentialsRefused(String)
    /// The provider says that the token belongs to another app, project or environment. Wrong settings of the daemon
    /// have the same effect, so the token stays until the provider has accepted one of our pushes.
    case foreignToken(String)
    /// The settings allow no connection to the provider: its certificate is not trusted, or one of our files cannot be
    /// used. The operator must correct this, but our keys are not the cause. The token stays.
    case noConnection(String)
    /// The provider refuses the content of the push, which is our error. The token stays.
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

/// Whether to drop a token that its provider reports as dead. The token stays if the device has registered it again
/// since the time of its death.
///
/// Apple describes this rule for its answer 410.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
