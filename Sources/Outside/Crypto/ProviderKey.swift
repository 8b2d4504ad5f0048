import Bytes
import COpenSSL

/// A private key that signs JSON web tokens for a push provider, such as Apple or Google.
///
/// - The type is `@unchecked Sendable`, because nothing changes the `EVP_PKEY` after `init`, and OpenSSL locks its
///   internal caches.
@safe
package final class ProviderKey: @unchecked Sendable {
    package enum Algorithm: Sendable {
        /// ECDSA over P-256 with SHA-256, for APNs and web push. An ES256 signature is r followed by s, 32 bytes each
        /// (RFC 7518 section 3.4).
        case es256
        /// RSASSA-PKCS1-v1_5 with SHA-256, for Google's token service (RFC 7518 section 3.3).
        case rs256

        /// The algorithm's name in the header of a JSON web token.
        package var name: String {
            switch self {
            case .es256: "ES256"
            case .rs256: "RS256"
            }
        }
    }

    package let algorithm: Algorithm
    private let raw: OpaquePointer

    /// Reads an unencrypted private key in PKCS#8 or one of OpenSSL's older forms. ES256 needs a key on the curve
    /// P-256, and RS256 an RSA key of at least 2048 bits.
    package init(_ pem: PEM, for algorithm: Algorithm) throws(CryptoError) {
        let raw: OpaquePointer
        do throws(TLSError) {
            unsafe raw = try unsafe pem.withPrivateKey { key throws(TLSError) in
                // The PEM reader frees its own reference to the key after the closure.
                guard unsafe EVP_PKEY_up_ref(key) == 1 else { throw .library(TLSError.pendingReason()) }
                return unsafe key
            }
        } catch {
            throw CryptoError(.unreadableKey, "\(error).")
        }
        unsafe self.raw = raw
        self.algorithm = algorithm
        if let complaint = unsafe Self.complaint(about: raw, for: algorithm) {
            throw CryptoError(.unsuitableKey, "\(pem.name): \(complaint).")
        }
    }

    deinit { unsafe EVP_PKEY_free(raw) }

    private static func complaint(about key: OpaquePointer, for algorithm: Algorithm) -> String? {
        switch algorithm {
        case .es256:
            guard unsafe EVP_PKEY_is_a(key, "EC") == 1 else { return "ES256 needs a key on an elliptic curve" }
            var name = [CChar](repeating: 0, count: 80)
            var length = 0
            guard unsafe EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else {
                ERR_clear_error()
                return "ES256 needs a key on the curve P-256"
            }
            let curve = String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
            return curve == "prime256v1" ? nil : "ES256 needs a key on the curve P-256, this one is on \(curve)"
        case .rs256:
            guard unsafe EVP_PKEY_is_a(key, "RSA") == 1 else { return "RS256 needs an RSA key" }
            let bits = unsafe EVP_PKEY_get_bits(key)
            return bits >= 2048 ? nil : "RS256 needs an RSA key of 2048 bits or more, this one has \(bits)"
        }
    }

    // MARK: Signing

    package func signature(of message: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard let context = unsafe EVP_MD_CTX_new() else { throw .library(algorithm.name) }
        defer { unsafe EVP_MD_CTX_free(context) }
        var length = 0
        let bytes = unsafe message.withUnsafeBufferPointer { message -> [UInt8]? in
            guard unsafe EVP_DigestSignInit_ex(context, nil, "SHA256", nil, nil, raw, nil) == 1,
                unsafe EVP_DigestSign(context, nil, &length, message.baseAddress, message.count) == 1
            else { return nil }
            var bytes = [UInt8](repeating: 0, count: length)
            guard unsafe EVP_DigestSign(context, &bytes, &length, message.baseAddress, message.count) == 1 else {
                return nil
            }
            return Array(bytes.prefix(length))
        }
        guard let bytes else { throw .library(algorithm.name) }
        switch algorithm {
        case .rs256: return bytes
        case .es256:
            guard let joined = ECDSASignature.joined(bytes) else { throw .library(algorithm.name) }
            return joined
        }
    }

    /// Whether the key made the signature of the message.
    package func isValid(_ signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let encoded = algorithm == .es256 ? ECDSASignature.encoded(signature) : signature else { return false }
        return unsafe isSHA256Signature(encoded, for: message, by: raw)
    }

    /// The public key as an uncompressed point of 65 bytes. In base64url, the point is `k` in a web push's
    /// authorization (RFC 8292 section 3.2), and the value of `+sip.vapid`.
    ///
    /// - Throws: ``CryptoError/Code/unsuitableKey`` if the key is not on a curve.
    package func publicPoint() throws(CryptoError) -> [UInt8] {
        guard algorithm == .es256 else { throw CryptoError(.unsuitableKey, "An RSA key has no point on a curve.") }
        return try unsafe Crypto.publicPoint(of: raw)
    }

    /// A signed JSON web token in compact form (RFC 7515 section 7.1). The arguments `header` and `claims` must be JSON
    /// texts.
    package func token(header: [UInt8], claims: [UInt8]) throws(CryptoError) -> [UInt8] {
        var token = Base64.url.encode(header)
        token.append(UInt8(ascii: "."))
        token.append(contentsOf: Base64.url.encode(claims))
        let signature = try signature(of: token)
        token.append(UInt8(ascii: "."))
        token.append(contentsOf: Base64.url.encode(signature))
        return token
    }
}

/// Converts ECDSA signatures over P-256 between OpenSSL's DER form and the form of JSON web tokens, which is r followed
/// by s.
package enum ECDSASignature {
    private static let half = 32

    /// Converts a DER signature to r followed by s. DER omits leading zero bytes, so r and s are padded on the left.
    package static func joined(_ der: [UInt8]) -> [UInt8]? {
        unsafe der.withUnsafeBufferPointer { der in
            var position = der.baseAddress
            guard let signature = unsafe d2i_ECDSA_SIG(nil, &position, der.count) else { return nil }
            defer { unsafe ECDSA_SIG_free(signature) }
            var joined = [UInt8](repeating: 0, count: 2 * half)
            let fits = unsafe joined.withUnsafeMutableBufferPointer { buffer in
                guard let start = buffer.baseAddress else { return false }
                return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), start, Int32(half)) == half
                    && BN_bn2binpad(ECDSA_SIG_get0_s(signature), start + half, Int32(half)) == half
            }
            return fits ? joined : nil
        }
    }

    package static func encoded(_ joined: [UInt8]) -> [UInt8]? {
        guard joined.count == 2 * half, let signature = unsafe ECDSA_SIG_new() else { return nil }
        defer { unsafe ECDSA_SIG_free(signature) }
        let r = unsafe BN_bin2bn(Array(joined[..<half]), Int32(half), nil)
        let s = unsafe BN_bin2bn(Array(joined[half...]), Int32(half), nil)
        // From now on, the signature object owns r and s, and frees them.
        guard unsafe ECDSA_SIG_set0(signature, r, s) == 1 else { return nil }
        var start: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_ECDSA_SIG(signature, &start)
        guard count > 0, let start = unsafe start else { return nil }
        defer { unsafe CRYPTO_free(start, "ProviderKey.swift", 0) }
        return unsafe Array(UnsafeBufferPointer(start: start, count: Int(count)))
    }
}
