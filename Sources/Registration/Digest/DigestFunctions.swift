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

enum Hex {
    static func encode(_ bytes: [UInt8]) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                out.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            }
        }
        return out
    }

    /// - Returns: `nil` for an odd count, or for anything but lower-case digits.
    static func decode(_ text: ByteString) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        var out: [UInt8] = []
        out.reserveCapacity(text.count / 2)
        for index in stride(from: 0, to: text.count, by: 2) {
            guard let high = text[index].hexValue, let low = text[index + 1].hexValue,
                text[index] == text[index].asciiLowercased, text[index + 1] == text[index + 1].asciiLowercased
            else { return nil }
            out.append(high << 4 | low)
        }
        return out
    }

    /// Takes the same time wherever the first difference stands; lengths are no secret.
    static func isEqual(_ left: [UInt8], _ right: ByteString) -> Bool {
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for index in left.indices { difference |= left[index] ^ right[index] }
        return difference == 0
    }
}
