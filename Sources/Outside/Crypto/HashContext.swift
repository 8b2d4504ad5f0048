import Bytes
import COpenSSL

/// The state of a digest computation. After ``finish()``, the state is ready for the next digest without a new set-up.
@safe
package struct HashContext: ~Copyable {
    package let algorithm: HashAlgorithm
    private let raw: OpaquePointer

    package init(_ algorithm: HashAlgorithm) {
        guard let raw = unsafe EVP_MD_CTX_new() else { preconditionFailure("out of memory") }
        self.algorithm = algorithm
        unsafe self.raw = raw
        start()
    }

    deinit { unsafe EVP_MD_CTX_free(raw) }

    package mutating func update(_ bytes: Span<UInt8>) {
        let code = unsafe bytes.withUnsafeBytes { unsafe EVP_DigestUpdate(raw, $0.baseAddress, $0.count) }
        precondition(code == 1, "an initialised digest takes any bytes")
    }

    package mutating func finish() -> [UInt8] {
        let digest = unsafe [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { buffer, count in
            var written: UInt32 = 0
            let code = unsafe EVP_DigestFinal_ex(raw, buffer.baseAddress, &written)
            precondition(code == 1, "an initialised digest can be finished")
            count = Int(written)
        }
        start()
        return digest
    }

    /// Ends the computation, and returns the digest in lower-case hexadecimal.
    package mutating func finishHex() -> [UInt8] { Hex.encode(finish().span) }

    private func start() {
        let code = unsafe EVP_DigestInit_ex2(raw, algorithm.implementation.pointer, nil)
        precondition(code == 1, "digest not offered by this OpenSSL; ask isAvailable at start")
    }
}
