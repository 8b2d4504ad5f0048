import Bytes
import PushDelivery
import Registration

extension StoredRow {
    var storedUser: DigestUser {
        var ha1: [DigestAlgorithm: ByteString] = [:]
        for (index, algorithm) in [DigestAlgorithm.md5, .sha256, .sha512_256].enumerated() where !isNull(2 + index) {
            ha1[algorithm] = byteString(2 + index)
        }
        return DigestUser(name: byteString(0), realm: byteString(1), ha1: ha1)
    }
}

extension ProviderState {
    /// The provider's state as the number in the column `enabled`. Versions before 0.2.0 know only 0 and 1, and treat a
    /// paused provider as enabled.
    var column: Int {
        switch self {
        case .off: 0
        case .on: 1
        case .paused: 2
        }
    }
}
