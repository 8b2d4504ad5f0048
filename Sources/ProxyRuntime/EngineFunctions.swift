import Crypto
import ProxyCore
import Registration
import SIPMessage
import Synchronization

/// The functions the rules get from libraries: seals, digests, chance, and the reader.
enum EngineFunctions {
    static func make() throws(StartError) -> ProxyFunctions {
        let sealKey = try key()
        let codeKey = try key()
        let reader = ReaderBox()
        return ProxyFunctions(
            seal: { sealKey.code(for: $0) }, random: { UInt64.random(in: .min ... .max) },
            reread: { bytes in
                guard case .request(let request) = reader.read(bytes) else { return nil }
                return request
            },
            digest: DigestFunctions(
                hash: { algorithm, bytes in
                    switch algorithm {
                    case .md5: HashAlgorithm.md5.digest(of: bytes)
                    case .sha256: HashAlgorithm.sha256.digest(of: bytes)
                    }
                }, code: { codeKey.code(for: $0) }))
    }

    private static func key() throws(StartError) -> KeyBox {
        do {
            return KeyBox(try HMACKey(RandomBytes.make(32).span))
        } catch {
            throw StartError("no random key: \(error)")
        }
    }

    /// An HMAC key changes inside while it works, so each use takes the lock; one thread uses it, the lock is free.
    private final class KeyBox: Sendable {
        private let key: Mutex<HMACKey>

        init(_ key: consuming sending HMACKey) { self.key = Mutex(key) }

        func code(for bytes: [UInt8]) -> [UInt8] { key.withLock { $0.code(for: bytes) } }
    }

    private final class ReaderBox {
        private var reader = MessageReader()

        func read(_ bytes: ByteString) -> ReadMessage { reader.read(bytes, isStream: false) }
    }
}
