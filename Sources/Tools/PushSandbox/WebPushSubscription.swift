import Crypto

/// A browser's or app's side of a web push, which alone can decrypt it.
struct WebPushSubscription {
    let keys: P256KeyPair
    let authSecret: [UInt8]
    /// The only key that may sign pushes to it, 65 bytes; `nil` if any key may (RFC 8292 section 4).
    var allowedSender: [UInt8]?

    init() throws(CryptoError) {
        keys = try P256KeyPair()
        authSecret = try RandomBytes.make(WebPushEncryption.authSecretLength)
    }
}
