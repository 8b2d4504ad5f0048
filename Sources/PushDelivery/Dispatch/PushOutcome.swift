package import Bytes
package import Timekeeping

/// What a provider's answer means for us; each case says what to do.
package enum PushOutcome: Hashable, Sendable {
    /// The provider took it; its own id of the push, when it gave one.
    case accepted(ByteString?)
    /// It took it, and names a token to use instead from now on (FCM legacy canonical id).
    case acceptedWithNewToken(ByteString)
    /// The app is gone from the device; since when, if the provider says so. Forget the contact by the time rule.
    case tokenDead(since: UnixTime?)
    /// Worth another try, not before the given time.
    case retry(after: Duration?)
    /// Our short-lived credential was refused: make a new one and try once more.
    case renewCredential
    /// The provider does not accept us: the operator's problem. The token stays.
    case credentialsRefused(String)
    /// As things are set no connection to the provider can be made: its certificate is not trusted, or a file of ours cannot
    /// be used. The operator's problem too, but keys and their names have no part in it. The token stays.
    case noConnection(String)
    /// The provider does not accept what we wrote: our bug. The token stays.
    case payloadRefused(String)
    /// The device gave no token that may carry this message.
    case noSuitableToken

    package var isAccepted: Bool {
        switch self {
        case .accepted, .acceptedWithNewToken: true
        case .tokenDead, .retry, .renewCredential, .credentialsRefused, .noConnection, .payloadRefused,
            .noSuitableToken:
            false
        }
    }
}

/// Whether a provider's word that a token is dead counts (RFC-like rule of APNs 410): only when the device has not given
/// us the token again since. Both are milliseconds.
package func shouldDropToken(since: UnixTime?, registeredAt: UnixTime) -> Bool {
    guard let since else { return true }
    return registeredAt <= since
}
