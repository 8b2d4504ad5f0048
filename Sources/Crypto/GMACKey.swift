import COpenSSL

/// A key for GMAC (NIST SP 800-38D: AES-256-GCM over nothing but associated data), set up once. For much that must be
/// authenticated cheaply: 1,000 bytes cost some 3,000 instructions, a tenth of what HMAC-SHA256 needs.
///
/// Under one key no nonce may come twice for different bytes. Each value of this type gives nonces of its own.
@safe
package struct GMACKey: ~Copyable {
    private let raw: OpaquePointer
    /// Where the nonces of this value begin: random, then a number that rises.
    private var nonce: [UInt8]

    /// - Parameter key: 32 random bytes.
    /// - Throws: also when the key has another length.
    package init(_ key: [UInt8]) throws(CryptoError) {
        guard key.count == Self.byteCount else { throw CryptoError(.wrongLength, "A GMAC key has 32 bytes.") }
        let nonce = try RandomBytes.make(8) + [0, 0, 0, 0]
        guard let raw = unsafe EVP_CIPHER_CTX_new() else { throw .library("GMAC") }
        guard unsafe EVP_EncryptInit_ex2(raw, EVP_aes_256_gcm(), key, nonce, nil) == 1 else {
            unsafe EVP_CIPHER_CTX_free(raw)
            throw .library("GMAC")
        }
        unsafe self.raw = raw
        self.nonce = nonce
    }

    deinit { unsafe EVP_CIPHER_CTX_free(raw) }

    /// Writes a nonce and the tag of all bytes from `start` on, in the places before them that were left for it.
    package mutating func seal(_ bytes: inout [UInt8], from start: Int) {
        precondition(start >= Self.sealCount && start < bytes.count, "there is something, and room before it")
        let raw = unsafe raw
        let place = start - Self.sealCount
        var index = Self.nonceCount - 1
        // After 4 billion seals it runs over into the random part, which is as good as another one.
        repeat {
            nonce[index] &+= 1
            index -= 1
        } while index >= 0 && nonce[index + 1] == 0
        for index in 0..<Self.nonceCount { bytes[place + index] = nonce[index] }
        let isDone = unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return false }
            return unsafe gmac_tag(
                raw, base + place, base + start, Int32(clamping: buffer.count - start), base + place + Self.nonceCount)
                == 1
        }
        precondition(isDone, "a keyed GMAC takes any bytes")
    }

    /// Whether the seal that stands directly before the range was made with this key for the bytes of the range.
    package func isSealed(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        guard range.lowerBound >= Self.sealCount, range.upperBound <= bytes.count, !range.isEmpty else { return false }
        let raw = unsafe raw
        let place = range.lowerBound - Self.sealCount
        return unsafe bytes.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return false }
            return unsafe gmac_is_tag(
                raw, base + place, base + range.lowerBound, Int32(clamping: range.count), base + place + Self.nonceCount
            )
                == 1
        }
    }

    package static let byteCount = 32
    private static let nonceCount = 12
    /// What stands before what is sealed: a nonce, and a tag of 16 bytes.
    package static let sealCount = nonceCount + 16
}
