import Bytes
import COpenSSL

/// The public key of a server that signs JSON web tokens.
///
/// Each key has one algorithm, so that the sender of a token cannot choose another (RFC 8725 section 3.1).
///
/// - The type is `@unchecked Sendable`, because nothing changes the `EVP_PKEY` after `init`, and OpenSSL locks its
///   internal caches.
@safe
package final class SigningKey: @unchecked Sendable {
    package let algorithm: ProviderKey.Algorithm
    /// The length of the RSA key in bits.
    package let bits: Int
    /// The SHA-256 digest of the key's SubjectPublicKeyInfo.
    package let digest: [UInt8]
    private let raw: OpaquePointer

    /// The allowed sizes of RSA keys in bits; larger keys would slow down the check of signatures.
    private static let sizes = 2048...8192
    private static let longestExponent = 4

    /// Makes a key for ES256 from the coordinates of its point on the curve P-256.
    ///
    /// - Throws: ``CryptoError/Code/unsuitableKey`` if the coordinates do not have 32 bytes, or are no point on the
    ///   curve.
    package convenience init(x: [UInt8], y: [UInt8]) throws(CryptoError) {
        guard x.count == 32, y.count == 32 else {
            throw CryptoError(.unsuitableKey, "A key on P-256 has coordinates of 32 bytes.")
        }
        ERR_clear_error()
        guard let raw = unsafe p256_key([4] + x + y, nil) else {
            ERR_clear_error()
            throw CryptoError(.unsuitableKey, "The key is not a point on the curve P-256.")
        }
        try unsafe self.init(owning: raw)
    }

    /// Makes an RSA key from its modulus and exponent, most significant byte first.
    ///
    /// - Throws: ``CryptoError/Code/unsuitableKey`` if the key is too small or too large, or has an unusual exponent.
    package convenience init(modulus: [UInt8], exponent: [UInt8]) throws(CryptoError) {
        let modulus = Array(modulus.drop { $0 == 0 })
        let exponent = Array(exponent.drop { $0 == 0 })
        guard modulus.count <= Self.sizes.upperBound / 8, let last = exponent.last, last & 1 == 1,
            exponent.count <= Self.longestExponent, exponent != [1]
        else { throw CryptoError(.unsuitableKey, "The RSA key is too long, or has an unusual exponent.") }
        ERR_clear_error()
        guard
            let raw = unsafe rsa_public_key(modulus, Int32(modulus.count), exponent, Int32(exponent.count))
        else {
            ERR_clear_error()
            throw CryptoError(.unsuitableKey, "The RSA key cannot be used.")
        }
        try unsafe self.init(owning: raw)
    }

    /// Takes ownership of an OpenSSL key, which is freed even if the initialiser throws.
    private init(owning raw: OpaquePointer) throws(CryptoError) {
        unsafe self.raw = raw
        bits = Int(unsafe EVP_PKEY_get_bits(raw))
        if unsafe EVP_PKEY_is_a(raw, "RSA") == 1 {
            algorithm = .rs256
        } else {
            algorithm = .es256
        }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = unsafe Int(public_key_bytes(raw, &bytes, Int32(bytes.count)))
        digest = HashAlgorithm.sha256.digest(of: Array(bytes.prefix(count)))
        guard count > 0 else { throw .library("the public key") }
        if let complaint = unsafe Self.complaint(about: raw, bits: bits) {
            throw CryptoError(.unsuitableKey, complaint)
        }
    }

    deinit { unsafe EVP_PKEY_free(raw) }

    private static func complaint(about key: OpaquePointer, bits: Int) -> String? {
        if unsafe EVP_PKEY_is_a(key, "RSA") == 1 {
            return sizes.contains(bits) ? nil : "RS256 needs an RSA key of 2048 to 8192 bits, this one has \(bits)."
        }
        var name = [CChar](repeating: 0, count: 80)
        var length = 0
        guard unsafe EVP_PKEY_is_a(key, "EC") == 1,
            unsafe EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1,
            String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self) == "prime256v1"
        else {
            ERR_clear_error()
            return "The key is neither an RSA key nor a key on the curve P-256."
        }
        return nil
    }

    /// Reads up to 64 public keys from a PEM text, in their order.
    ///
    /// - Throws: ``CryptoError/Code/unreadableKey`` if the text contains no public key, and
    ///   ``CryptoError/Code/unsuitableKey`` if a key cannot be used.
    package static func keys(in pem: [UInt8]) throws(CryptoError) -> [SigningKey] {
        let source: PEMReader
        do throws(TLSError) {
            source = try PEMReader(.bytes(pem))
        } catch {
            throw CryptoError(.unreadableKey, "\(error).")
        }
        defer { ERR_clear_error() }
        var keys: [SigningKey] = []
        while keys.count < 64, let raw = unsafe PEM_read_bio_PUBKEY(source.bio, nil, nil, nil) {
            keys.append(try unsafe SigningKey(owning: raw))
        }
        guard !keys.isEmpty else { throw CryptoError(.unreadableKey, "It has no public key in PEM form.") }
        return keys
    }

    /// Whether the key made the signature of a message.
    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        switch algorithm {
        case .rs256: return unsafe isSHA256Signature(signature, for: message, by: raw)
        case .es256:
            guard let encoded = ECDSASignature.encoded(signature) else { return false }
            return unsafe isSHA256Signature(encoded, for: message, by: raw)
        }
    }
}
