import Crypto

/// The side of a browser or an app in web push. Only this side can decrypt pushes.
struct WebPushSubscription {
    let keys: P256KeyPair
    let authSecret: [UInt8]
    /// The only public key whose pushes are accepted, 65 bytes. If it is `nil`, pushes of any key are accepted (RFC
    /// 8292 section 4).
    var allowedSender: [UInt8]?

    init() throws(CryptoError) {
        keys = try P256KeyPair()
        authSecret = try RandomBytes.make(WebPushEncryption.authSecretLength)
    }
}
