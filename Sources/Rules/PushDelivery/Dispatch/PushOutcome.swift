package import Bytes
package import Timekeeping

/// The meaning of a provider's answer, which determines the reaction.
package enum PushOutcome: Hashable, Sendable {
    /// The provider accepted the push, and may have assigned an id.
    case accepted(ByteString?)
    /// The provider accepted the push, and returned a new token for later pushes (the canonical id of FCM's legacy
    /// interface).
    case acceptedWithNewToken(ByteString)
    /// The app is gone from the device. The provider may say since when. The contact is dropped if
    /// ``shouldDropToken(since:registeredAt:)`` agrees.
    case tokenDead(since: UnixTime?)
    /// The push may be retried, but not before the given time has passed.
    case retry(after: Duration?)
    /// The provider refused our short-lived credential. A new one is made for one more try.
    case renewCredential
    /// The provider refuses our credentials, and the operator must correct them. The token stays.
    case credentialsRefused(String)
    /// The token belongs to another app, project or environment. Wrong settings of ours have the same effect, so the
    /// token stays until the provider has accepted one of our pushes.
    case foreignToken(String)
    /// These settings allow no connection to the provider: its certificate is not trusted, or one of our files cannot
    /// be used. The operator has to correct this, too, but our keys and their names are not the cause. The token stays.
    case noConnection(String)
    /// The provider refuses the contents of the push, which is our error. The token stays.
    case payloadRefused(String)
    /// The device registered no token for this kind of message.
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
/// since then.
///
/// Apple describes this rule for its answer 410.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
