import COpenSSL

/// A key for HMAC-SHA256 (RFC 2104), which is set up once and used many times.
@safe
package struct HMACKey: ~Copyable {
    private let raw: OpaquePointer

    /// Sets up a key from secret bytes, which should be random and at least 16.
    package init(_ key: Span<UInt8>) throws(CryptoError) {
        guard let algorithm = unsafe FetchedMAC.hmac.pointer, let raw = unsafe EVP_MAC_CTX_new(algorithm) else {
            throw .library("HMAC")
        }
        let code = unsafe key.withUnsafeBytes { unsafe hmac_set_key_sha256(raw, $0.baseAddress, $0.count) }
        guard code == 1 else {
            unsafe EVP_MAC_CTX_free(raw)
            throw .library("HMAC")
        }
        unsafe self.raw = raw
    }

    deinit { unsafe EVP_MAC_CTX_free(raw) }

    /// The HMAC of the bytes: 32 bytes that only an owner of the key can compute.
    package mutating func code(for bytes: Span<UInt8>) -> [UInt8] {
        // If OpenSSL gets NULL as the key, it keeps the key that is already set.
        let started = unsafe EVP_MAC_init(raw, nil, 0, nil)
        let updated = unsafe bytes.withUnsafeBufferPointer { unsafe EVP_MAC_update(raw, $0.baseAddress, $0.count) }
        precondition(started == 1 && updated == 1, "a keyed HMAC takes any bytes")
        return unsafe [UInt8](unsafeUninitializedCapacity: Self.byteCount) { buffer, count in
            let code = unsafe EVP_MAC_final(raw, buffer.baseAddress, &count, buffer.count)
            precondition(code == 1 && count == Self.byteCount, "a keyed HMAC can be finished")
        }
    }

    package mutating func code(for bytes: [UInt8]) -> [UInt8] { code(for: bytes.span) }

    package static let byteCount = 32
}

/// OpenSSL's algorithm object (`EVP_MAC`), fetched once per process.
///
/// - The type is `@unchecked Sendable`, because a fetched `EVP_MAC` is never written again.
@safe
struct FetchedMAC: @unchecked Sendable {
    let pointer: OpaquePointer?

    static let hmac = unsafe FetchedMAC(pointer: EVP_MAC_fetch(nil, "HMAC", nil))
}
