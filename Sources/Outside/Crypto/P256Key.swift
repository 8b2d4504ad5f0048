import COpenSSL

/// A public key on the curve P-256: a point in the uncompressed form of 65 bytes (`04`, X, Y).
///
/// - The type is `@unchecked Sendable`, because nothing changes the `EVP_PKEY` after `init`, and OpenSSL locks its
///   internal caches.
@safe
package final class P256PublicKey: @unchecked Sendable {
    package let point: [UInt8]
    fileprivate let raw: OpaquePointer

    package static let pointLength = 65

    /// Makes a public key from a point of 65 bytes.
    ///
    /// - Throws: ``CryptoError/Code/unsuitableKey`` if the key has a wrong length or form, or if its point is not on
    ///   the curve.
    package init(point: [UInt8]) throws(CryptoError) {
        guard point.count == Self.pointLength, point.first == 4 else {
            throw CryptoError(.unsuitableKey, "A public key on P-256 has 65 bytes, the first of them 4.")
        }
        ERR_clear_error()
        guard let raw = unsafe p256_key(point, nil) else {
            ERR_clear_error()
            throw CryptoError(.unsuitableKey, "The public key is not a point on the curve P-256.")
        }
        self.point = point
        unsafe self.raw = raw
    }

    deinit { unsafe EVP_PKEY_free(raw) }

    /// Whether an ES256 signature of a message was made with the private key of this public key. An ES256 signature
    /// consists of the numbers r and s, 32 bytes each.
    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let encoded = ECDSASignature.encoded(signature) else { return false }
        return unsafe isSHA256Signature(encoded, for: message, by: raw)
    }
}

/// A private key on P-256 and its public key. With the public key of another pair, the private key gives a secret that
/// both owners share (ECDH).
///
/// - The type is `@unchecked Sendable`, because nothing changes the `EVP_PKEY` after `init`, and OpenSSL locks its
///   internal caches.
@safe
package final class P256KeyPair: @unchecked Sendable {
    /// The public key as an uncompressed point of 65 bytes.
    package let publicKey: [UInt8]
    private let raw: OpaquePointer

    package static let privateKeyLength = 32

    package init() throws(CryptoError) {
        ERR_clear_error()
        guard let raw = unsafe tls_make_p256_key() else { throw .library("a fresh key") }
        unsafe self.raw = raw
        publicKey = try unsafe publicPoint(of: raw)
    }

    /// Makes a key pair from the bytes of a private key.
    ///
    /// - Throws: ``CryptoError/Code/unsuitableKey`` if the key does not have 32 bytes, or is a number outside the
    ///   curve's range.
    package init(privateKey: [UInt8]) throws(CryptoError) {
        var point = [UInt8](repeating: 0, count: P256PublicKey.pointLength)
        guard privateKey.count == Self.privateKeyLength, unsafe p256_multiply(privateKey, &point) == 1 else {
            ERR_clear_error()
            throw CryptoError(
                .unsuitableKey, "A private key on P-256 is a number of 32 bytes, not 0 and below its order.")
        }
        guard let raw = unsafe p256_key(point, privateKey) else { throw .library("a private key") }
        unsafe self.raw = raw
        publicKey = point
    }

    deinit { unsafe EVP_PKEY_free(raw) }

    /// The secret that the owners of both keys share (ECDH): the X coordinate of a point, 32 bytes.
    func sharedSecret(with other: P256PublicKey) throws(CryptoError) -> [UInt8] {
        ERR_clear_error()
        guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, raw, nil) else { throw .library("ECDH") }
        defer { unsafe EVP_PKEY_CTX_free(context) }
        var secret = [UInt8](repeating: 0, count: Self.privateKeyLength)
        var length = secret.count
        guard unsafe EVP_PKEY_derive_init(context) == 1, unsafe EVP_PKEY_derive_set_peer(context, other.raw) == 1,
            unsafe EVP_PKEY_derive(context, &secret, &length) == 1, length == secret.count
        else { throw .library("ECDH") }
        return secret
    }
}

/// The public key as an uncompressed point of 65 bytes.
///
/// - Precondition: the key is on P-256.
func publicPoint(of key: OpaquePointer) throws(CryptoError) -> [UInt8] {
    var point = [UInt8](repeating: 0, count: P256PublicKey.pointLength)
    guard unsafe p256_public_point(key, &point) == 1 else { throw .library("the public key") }
    return point
}

/// Whether the SHA-256 signature was made for the message. The signature is in OpenSSL's form, which is DER for a key
/// on an elliptic curve.
func isSHA256Signature(_ signature: [UInt8], for message: [UInt8], by key: OpaquePointer) -> Bool {
    guard let context = unsafe EVP_MD_CTX_new() else { return false }
    defer {
        unsafe EVP_MD_CTX_free(context)
        ERR_clear_error()
    }
    return unsafe message.withUnsafeBufferPointer { message in
        unsafe EVP_DigestVerifyInit_ex(context, nil, "SHA256", nil, nil, key, nil) == 1
            && EVP_DigestVerify(context, signature, signature.count, message.baseAddress, message.count) == 1
    }
}
