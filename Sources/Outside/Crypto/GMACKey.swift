import COpenSSL

/// A key that authenticates bytes by GMAC (NIST SP 800-38D: AES-256-GCM with only associated data). For 1,000 bytes,
/// GMAC needs about 1,500 instructions; HMAC-SHA256 needs twenty times as many.
///
/// The key generates all nonces itself, because a nonce that is used for two texts would break the key.
@safe
package struct GMACKey: ~Copyable {
    private let aes: OpaquePointer
    private let gcm: OpaquePointer
    /// The next nonce: a random start of 8 bytes and a counter.
    private var nonce: (start: UInt64, count: UInt32)

    /// Sets up the GMAC key.
    ///
    /// - Parameter key: 32 random bytes.
    /// - Throws: an error if the key has a wrong length, or if OpenSSL fails.
    package init(_ key: [UInt8]) throws(CryptoError) {
        guard key.count == Self.byteCount else { throw CryptoError(.wrongLength, "A GMAC key has 32 bytes.") }
        let nonce = try RandomBytes.make(8).reduce(0) { $0 << 8 | UInt64($1) }
        guard let aes = unsafe EVP_CIPHER_CTX_new() else { throw .library("GMAC") }
        guard unsafe EVP_EncryptInit_ex2(aes, EVP_aes_256_ecb(), key, nil, nil) == 1,
            unsafe EVP_CIPHER_CTX_set_padding(aes, 0) == 1, let gcm = unsafe gmac_new(aes)
        else {
            unsafe EVP_CIPHER_CTX_free(aes)
            throw .library("GMAC")
        }
        unsafe self.aes = aes
        unsafe self.gcm = gcm
        self.nonce = (nonce, 0)
    }

    deinit {
        unsafe CRYPTO_gcm128_release(gcm)
        unsafe EVP_CIPHER_CTX_free(aes)
    }

    /// Authenticates all bytes from `start` on. The authentication code, which is a nonce and a tag, is written into
    /// the reserved bytes directly before `start`.
    package mutating func seal(_ bytes: inout [UInt8], from start: Int) {
        precondition(start >= Self.sealCount && start < bytes.count, "there is something, and room before it")
        let gcm = unsafe gcm
        let place = start - Self.sealCount
        nonce.count &+= 1
        // The counter starts again after 4 billion codes, so the start of the nonces is raised by one.
        if nonce.count == 0 { nonce.start &+= 1 }
        let nonce = nonce
        let isDone = unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return false }
            let raw = UnsafeMutableRawBufferPointer(buffer)
            unsafe raw.storeBytes(of: nonce.start.bigEndian, toByteOffset: place, as: UInt64.self)
            unsafe raw.storeBytes(of: nonce.count.bigEndian, toByteOffset: place + 8, as: UInt32.self)
            return unsafe gmac_tag(
                gcm, base + place, base + start, buffer.count - start, base + place + Self.nonceCount) == 1
        }
        precondition(isDone, "a keyed GMAC takes any bytes")
    }

    /// Whether the bytes in `range` belong to the authentication code directly before `range`.
    package func isSealed(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        guard range.lowerBound >= Self.sealCount, range.upperBound <= bytes.count, !range.isEmpty else { return false }
        let gcm = unsafe gcm
        let place = range.lowerBound - Self.sealCount
        return unsafe bytes.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return false }
            return unsafe gmac_is_tag(
                gcm, base + place, base + range.lowerBound, range.count, base + place + Self.nonceCount) == 1
        }
    }

    package static let byteCount = 32
    private static let nonceCount = 12
    /// The length of an authentication code in bytes: a nonce, and a tag of 16 bytes.
    package static let sealCount = nonceCount + 16
}
