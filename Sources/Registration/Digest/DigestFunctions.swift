import SIPGrammar

/// The cryptography of digest authentication, handed in from outside: this module has none.
package struct DigestFunctions: Sendable {
    /// The binary digest of some bytes.
    package let hash: @Sendable (DigestAlgorithm, [UInt8]) -> [UInt8]
    /// At least 16 bytes that nobody can make without a random key of this process; SHA-256 based HMAC.
    package let code: @Sendable ([UInt8]) -> [UInt8]

    package init(
        hash: @escaping @Sendable (DigestAlgorithm, [UInt8]) -> [UInt8], code: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        self.hash = hash
        self.code = code
    }

    /// The digest in lower-case hexadecimal, as it goes into the next hash and over the wire.
    func hexHash(_ algorithm: DigestAlgorithm, _ bytes: [UInt8]) -> [UInt8] { Hex.encode(hash(algorithm, bytes)) }
}

/// Takes the same time wherever the first difference stands; lengths are no secret.
func equalInConstantTime(_ left: [UInt8], _ right: ByteString) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for index in left.indices { difference |= left[index] ^ right[index] }
    return difference == 0
}
