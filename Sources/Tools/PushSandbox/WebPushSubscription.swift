import Crypto

/// The receiving side of web push, like a browser or an app, which alone can decrypt the pushes of its subscription.
struct WebPushSubscription {
    let keys: P256KeyPair
    let authSecret: [UInt8]
    /// The only public key whose pushes are accepted, 65 bytes. If the key is `nil`, pushes of any key are accepted
    /// (RFC 8292 section 4).
    var allowedSender: [UInt8]?

    init() throws(CryptoError) {
        keys = try P256KeyPair()
        authSecret = try RandomBytes.make(WebPushEncryption.authSecretLength)
    }
}
