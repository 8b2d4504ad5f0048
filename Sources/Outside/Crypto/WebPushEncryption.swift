import COpenSSL

/// Encrypts the bodies of web pushes (RFC 8291) for the browser or app that subscribed. Each body is one record of the
/// content coding aes128gcm (RFC 8188).
package enum WebPushEncryption {
    /// The maximum length of a plaintext in bytes. The encrypted body then has 4096 bytes, which every push service
    /// accepts.
    package static let plaintextLimit = 3993
    package static let authSecretLength = 16

    private static let saltLength = 16
    private static let recordSize = 4096
    private static let tagLength = 16
    /// The number of bytes before the ciphertext: salt, record size, length of the key, and key.
    private static let headLength = saltLength + 4 + 1 + P256PublicKey.pointLength
    /// The delimiter after the plaintext of the last record; zeros may follow as padding (RFC 8188 section 2).
    private static let lastDelimiter: UInt8 = 2

    /// Encrypts a body for the subscription with the given key ("p256dh", 65 bytes) and secret ("auth", 16 bytes).
    ///
    /// - Throws: ``CryptoError/Code/unsuitableKey``, ``CryptoError/Code/wrongLength`` or ``CryptoError/Code/tooLong``
    ///   if a key, the secret or the text is unsuitable.
    package static func encrypt(
        _ plaintext: [UInt8], for userAgent: [UInt8], authSecret: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        try encrypt(
            plaintext, for: userAgent, authSecret: authSecret, from: P256KeyPair(), salt: RandomBytes.make(saltLength))
    }

    /// Encrypts a body with a given key pair and salt, for test vectors only. A pair and a salt must never encrypt two
    /// bodies, because an attacker could then find out both texts.
    package static func encrypt(
        _ plaintext: [UInt8], for userAgent: [UInt8], authSecret: [UInt8], from sender: P256KeyPair, salt: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        guard plaintext.count <= plaintextLimit else {
            throw CryptoError(.tooLong, "A web push has room for \(plaintextLimit) bytes, not for \(plaintext.count).")
        }
        let keys = try Keys(
            secret: sender.sharedSecret(with: P256PublicKey(point: userAgent)), authSecret: authSecret, salt: salt,
            userAgent: userAgent, sender: sender.publicKey)
        let record = plaintext + [lastDelimiter]
        var sealed = [UInt8](repeating: 0, count: record.count + tagLength)
        guard unsafe aes128gcm_seal(keys.content, keys.nonce, record, Int32(record.count), &sealed) == 1 else {
            throw .library("AES-128-GCM")
        }
        let size = UInt32(recordSize)
        return salt + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: size >> $0) } + [UInt8(sender.publicKey.count)]
            + sender.publicKey + sealed
    }

    /// Decrypts a body with the keys of the subscription's owner.
    ///
    /// - Throws: ``CryptoError/Code/undecryptable`` if decryption fails, or ``CryptoError/Code/wrongLength`` if the
    ///   secret has a wrong length.
    package static func decrypt(
        _ body: [UInt8], with userAgent: P256KeyPair, authSecret: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        guard body.count > headLength + tagLength, Int(body[saltLength + 4]) == P256PublicKey.pointLength else {
            throw CryptoError(
                .undecryptable, "Not a body of RFC 8291: too short, or with another key than one on P-256.")
        }
        let recordSize = body[saltLength..<saltLength + 4].reduce(0) { $0 << 8 | Int($1) }
        let sealed = Array(body[headLength...])
        guard sealed.count <= recordSize else {
            throw CryptoError(.undecryptable, "A web push has one record, which is not longer than it says.")
        }
        let point = Array(body[(saltLength + 5)..<headLength])
        let sender: P256PublicKey
        do throws(CryptoError) {
            sender = try P256PublicKey(point: point)
        } catch {
            throw CryptoError(.undecryptable, error.description)
        }
        let keys = try Keys(
            secret: userAgent.sharedSecret(with: sender), authSecret: authSecret, salt: Array(body[..<saltLength]),
            userAgent: userAgent.publicKey, sender: point)
        var record = [UInt8](repeating: 0, count: sealed.count - tagLength)
        guard unsafe aes128gcm_open(keys.content, keys.nonce, sealed, Int32(clamping: record.count), &record) == 1,
            let end = record.lastIndex(where: { $0 != 0 }), record[end] == lastDelimiter
        else {
            ERR_clear_error()
            throw CryptoError(.undecryptable, "Not encrypted for this key and secret, or modified.")
        }
        return Array(record[..<end])
    }

    /// The two keys that RFC 8291 section 3.4 derives for one message.
    private struct Keys {
        let content: [UInt8]
        let nonce: [UInt8]

        init(
            secret: [UInt8], authSecret: [UInt8], salt: [UInt8], userAgent: [UInt8], sender: [UInt8]
        ) throws(CryptoError) {
            guard authSecret.count == authSecretLength else {
                throw CryptoError(.wrongLength, "The secret of a subscription has 16 bytes, not \(authSecret.count).")
            }
            guard salt.count == saltLength else {
                throw CryptoError(.wrongLength, "A salt has 16 bytes, not \(salt.count).")
            }
            let pairKey = try Self.code(authSecret, secret)
            let input = try Self.code(pairKey, Array("WebPush: info".utf8) + [0] + userAgent + sender + [1])
            let messageKey = try Self.code(salt, input)
            content = Array(
                try Self.code(messageKey, Array("Content-Encoding: aes128gcm".utf8) + [0, 1]).prefix(16))
            nonce = Array(try Self.code(messageKey, Array("Content-Encoding: nonce".utf8) + [0, 1]).prefix(12))
        }

        private static func code(_ key: [UInt8], _ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
            var key = try HMACKey(key.span)
            return key.code(for: bytes)
        }
    }
}
