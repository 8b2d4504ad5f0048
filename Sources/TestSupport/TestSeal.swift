import Crypto
package import ProxyCore

extension DialogSeal {
    /// With a key that is the same in every run, and otherwise as the daemon's.
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
            })
    }
}
