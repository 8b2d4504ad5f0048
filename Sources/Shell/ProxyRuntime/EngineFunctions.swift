package import Addressing
package import Bytes
import Calling
import Compression
package import Crypto
package import ProxyCore
import Reactor
import Registration
import SIPDialogs
import SIPGrammar
import SIPMessage
package import Telemetry
package import UpstreamRegistration

/// Creates the engine's functions from libraries: encryption, digests, random numbers, and the reader of SIP messages.
/// The rules call C libraries only through ``EngineFunctions``.
package enum EngineFunctions {
    package static func make(
        seal: TextSealer, deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil },
        upstreamCode: (([UInt8]) -> [UInt8])? = nil, upstreamSeal: TokenSeal? = nil, log: Log
    ) throws(StartError) -> ProxyFunctions {
        let codeKey = try key()
        let reader = ReaderBox()
        let numbers = RandomNumbers()
        return ProxyFunctions(
            seal: DialogSeal(seal), random: { numbers.next() },
            reread: { bytes in
                guard case .request(let request) = reader.read(bytes) else { return nil }
                return request
            },
            packing: packing,
            digest: DigestFunctions(
                hash: { algorithm, bytes in
                    switch algorithm {
                    case .md5: HashAlgorithm.md5.digest(of: bytes)
                    case .sha256: HashAlgorithm.sha256.digest(of: bytes)
                    case .sha512_256: HashAlgorithm.sha512_256.digest(of: bytes)
                    }
                }, code: { codeKey.code(for: $0) }), deviceCode: deviceCode, upstreamCode: upstreamCode,
            upstreamSeal: upstreamSeal, zone: { TimeZoneFiles.offsets(of: $0) }, log: log)
    }

    private static var packing: RequestPacking {
        let compressor = SampleCompressor()
        return RequestPacking(
            pack: { compressor.block(of: $0, like: $1, limit: $2) },
            unpack: { SampleCompressor.bytes(of: $0, count: $2, like: $1) })
    }

    private static func key() throws(StartError) -> KeyBox {
        do {
            return try KeyBox(RandomBytes.make(32))
        } catch {
            throw StartError("cannot create a random key: \(error)")
        }
    }

    /// Unpredictable random numbers, taken from the system in blocks of 64, because each system call costs time.
    ///
    /// - The class is `@unchecked Sendable`, because only the engine's thread uses it.
    private final class RandomNumbers: @unchecked Sendable {
        private var numbers: [UInt64] = []

        func next() -> UInt64 {
            if let number = numbers.popLast() { return number }
            var system = SystemRandomNumberGenerator()
            guard let bytes = try? RandomBytes.make(64 * 8) else { return system.next() }
            for index in 0..<64 {
                var number: UInt64 = 0
                for byte in bytes[index * 8..<index * 8 + 8] { number = number << 8 | UInt64(byte) }
                numbers.append(number)
            }
            return numbers.popLast() ?? system.next()
        }
    }

    private final class ReaderBox {
        private var reader = MessageReader()

        func read(_ bytes: ByteString) -> ReadMessage { reader.read(bytes, isStream: false) }
    }
}

/// An HMAC key that closures share. ``KeyBox`` is a class, because computing a code changes the key's internal state.
///
/// - The class is `@unchecked Sendable`, because only the engine's thread uses it.
final class KeyBox: @unchecked Sendable {
    private var key: HMACKey

    init(_ secret: [UInt8]) throws(CryptoError) { key = try HMACKey(secret.span) }

    func code(for bytes: [UInt8]) -> [UInt8] { key.code(for: bytes) }
}

extension DialogSeal {
    /// Creates the functions that encrypt and decrypt dialog tokens. The encryption binds each dialog token to the
    /// Call-ID and to the caller's tag.
    init(_ sealer: TextSealer) {
        self.init(
            seal: { sealer.seal($0, with: $1, $2) },
            open: { text, callID, tag in
                sealer.open(text, with: callID, tag).map { Opened(plain: $0.plain, digest: $0.digest) }
            }, sealBlock: { sealer.seal($0, $1) }, openBlock: { sealer.openBlock($0) })
    }
}
