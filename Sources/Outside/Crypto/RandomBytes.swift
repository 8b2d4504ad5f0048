import COpenSSL

/// Generates random bytes that nobody can predict, for keys and secrets.
package enum RandomBytes {
    package static func make(_ count: Int) throws(CryptoError) -> [UInt8] {
        var code: Int32 = 0
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            unsafe buffer.initialize(repeating: 0)
            code = unsafe RAND_bytes(buffer.baseAddress, Int32(clamping: count))
            written = count
        }
        guard code == 1 else { throw .library("random bytes") }
        return bytes
    }
}
