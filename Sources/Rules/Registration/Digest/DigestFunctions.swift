import Bytes
package import SIPGrammar

/// The cryptographic functions for digest authentication, which come from the shell.
package struct DigestFunctions: Sendable {
    /// Computes the binary digest of the bytes with the algorithm.
    package let hash: @Sendable (DigestAlgorithm, [UInt8]) -> [UInt8]
    /// Computes a code of at least 16 bytes: an HMAC with SHA-256 and a random key of the process.
    package let code: @Sendable ([UInt8]) -> [UInt8]

    package init(
        hash: @escaping @Sendable (DigestAlgorithm, [UInt8]) -> [UInt8], code: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        self.hash = hash
        self.code = code
    }

    /// The digest of the bytes as lower-case hexadecimal digits, which SIP uses.
    func hexHash(_ algorithm: DigestAlgorithm, _ bytes: [UInt8]) -> [UInt8] { Hex.encode(hash(algorithm, bytes)) }

    /// The correct response for credentials of a user with the given HA1 (RFC 7616 section 3.4.1).
    package func response(
        to credentials: DigestCredentials, _ algorithm: DigestAlgorithm, method: Method, ha1: [UInt8]
    ) -> [UInt8] {
        var text: [UInt8] = []
        method.append(to: &text)
        text.append(":")
        text.append(credentials.uri)
        let ha2 = hexHash(algorithm, text)

        text.removeAll(keepingCapacity: true)
        text.append(contentsOf: ha1)
        text.append(":")
        text.append(credentials.nonce)
        text.append(":")
        if let qop = credentials.qop {
            for part in [credentials.nonceCount ?? .empty, credentials.cnonce ?? .empty, qop] {
                text.append(part)
                text.append(":")
            }
        }
        text.append(contentsOf: ha2)
        return hexHash(algorithm, text)
    }
}

/// Compares two texts in a time that depends only on their lengths and reveals nothing about their content.
func equalInConstantTime(_ left: [UInt8], _ right: ByteString) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for index in left.indices { difference |= left[index] ^ right[index] }
    return difference == 0
}
