import Bytes
package import Calling
import Compression
import Crypto
import ProxyCore
package import Registration
package import SIPDialogs
package import UpstreamRegistration

extension RequestPacking {
    /// The daemon's own packing of stored requests.
    package static var forTests: RequestPacking {
        let compressor = SampleCompressor()
        return RequestPacking(
            pack: { compressor.block(of: $0, like: $1, limit: $2) },
            unpack: { SampleCompressor.bytes(of: $0, count: $2, like: $1) })
    }
}

extension DialogSeal {
    /// The daemon's own encryption of dialog tokens, with the same key in every run.
    package static var forTests: DialogSeal {
        let sealer = TextSealer()
        do {
            try sealer.use([UInt8](repeating: 7, count: 32), number: 1)
        } catch {
            preconditionFailure("OpenSSL has no AES: \(error)")
        }
        return DialogSeal(
            seal: { sealer.seal($0, with: $1, $2) },
            open: { text, callID, tag in
                sealer.open(text, with: callID, tag).map { Opened(plain: $0.plain, digest: $0.digest) }
            }, sealBlock: { sealer.seal($0, $1) }, openBlock: { sealer.openBlock($0) })
    }
}

extension DigestFunctions {
    /// The real hash functions for digest authentication.
    package static let forTests = DigestFunctions(
        hash: { algorithm, bytes in
            switch algorithm {
            case .md5: HashAlgorithm.md5.digest(of: bytes)
            case .sha256: HashAlgorithm.sha256.digest(of: bytes)
            case .sha512_256: HashAlgorithm.sha512_256.digest(of: bytes)
            }
        }, code: { HashAlgorithm.sha256.digest(of: Array("key".utf8) + $0) })
}

extension TokenSeal {
    /// Contact tokens that anybody can read.
    package static let forTests = TokenSeal(
        seal: { name, domain in ByteString(Hex.encode(Array("token \(domain) \(name)".utf8))) },
        open: { text in
            let parts = text.lowercased().withSpan { Hex.decode($0) }.map { $0.split(separator: UInt8(ascii: " ")) }
            guard let parts, parts.count == 3, parts[0] == Array("token".utf8)[...] else { return nil }
            return (ByteString(parts[2]), ByteString(parts[1]))
        })
}
