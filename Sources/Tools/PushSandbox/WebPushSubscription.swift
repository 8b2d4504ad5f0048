import Crypto

/// A web push subscription, as a browser or an app has it: only the owner of its keys can decrypt the pushes.
struct WebPushSubscription {
    let keys: P256KeyPair
    let authSecret: [UInt8]
    /// The public key that must verify the signatures of all pushes, 65 bytes (RFC 8292 section 4); `nil` if any key is
    /// allowed.
    var allowedSender: [UInt8]?

    /// The service at which the subscription exists.
    var service = ProviderSemantics.SubscriptionService.webPush

    init() throws(CryptoError) {
        keys = try P256KeyPair()
        authSecret = try RandomBytes.make(WebPushEncryption.authSecretLength)
    }
}
