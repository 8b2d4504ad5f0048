package import Bytes
package import Timekeeping

/// What a provider's answer means for us, and what is to be done.
package enum PushOutcome: Hashable, Sendable {
    /// The provider accepted the push, and may have given it an id of its own.
    case accepted(ByteString?)
    /// The provider accepted the push, and names a token to use from now on (the canonical id of FCM's old interface).
    case acceptedWithNewToken(ByteString)
    /// The app is gone from the device, since the given time if the provider says so. The contact is dropped if
    /// ``shouldDropToken(since:registeredAt:)`` agrees.
    case tokenDead(since: UnixTime?)
    /// The push is worth another try, but not before the given time has passed.
    case retry(after: Duration?)
    /// The provider refused our short-lived credential. A new one is to be made for one more try.
    case renewCredential
    /// The provider does not accept us, which the operator has to mend. The token stays.
    case credentialsRefused(String)
    /// The token belongs to another app, project or environment than ours. So it is as well when all of our settings are
    /// another's; the token stays until the provider has accepted a push of ours.
    case foreignToken(String)
    /// With these settings no connection to the provider can be made: its certificate is not trusted, or one of our
    /// files cannot be used. The operator has to mend this, too, but our keys and their names are not the cause. The
    /// token stays.
    case noConnection(String)
    /// The provider does not accept what we wrote, which is a fault of ours. The token stays.
    case payloadRefused(String)
    /// The device gave no token that may carry this message.
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

/// Whether a token that its provider calls dead is to be dropped: only if the device has not registered it again since
/// then.
///
/// Apple describes this rule for its answer 410.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
