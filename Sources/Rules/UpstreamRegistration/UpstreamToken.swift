package import Bytes

/// The user part of the contact that the daemon registers at a PBX for one user: 100 bits, written as 20 characters of
/// base 32.
///
/// Nobody can guess an ``UpstreamToken`` (contact token), because it is computed with a secret in the store. A user's
/// ``UpstreamToken`` never changes, because a PBX would make a second binding for another token.
package struct UpstreamToken: Hashable, Sendable {
    /// The first twelve and the last eight characters of the ``UpstreamToken``, five bits each.
    private let high, low: UInt64

    package static let length = 20
    private static let highCount = 12

    /// Makes an ``UpstreamToken`` from the first 100 bits of a code.
    ///
    /// - Precondition: the code has at least 13 bytes.
    init(code: [UInt8]) {
        precondition(code.count >= 13, "a token needs 100 bits")
        var (high, low) = (UInt64(0), UInt64(0))
        for place in 0..<Self.length {
            let (byte, shift) = (place * 5 / 8, place * 5 % 8)
            let next = byte + 1 < code.count ? UInt16(code[byte + 1]) : 0
            let digit = UInt64((UInt16(code[byte]) << 8 | next) >> UInt16(11 - shift) & 31)
            if place < Self.highCount { high = high << 5 | digit } else { low = low << 5 | digit }
        }
        self.high = high
        self.low = low
    }

    /// Reads an ``UpstreamToken``, in upper or lower case, from the user part of a Request-URI; `nil` for any other
    /// text.
    package init?(_ text: ByteString) {
        guard text.count == Self.length else { return nil }
        var (high, low) = (UInt64(0), UInt64(0))
        for place in 0..<Self.length {
            guard let digit = Self.digit(text[place]) else { return nil }
            if place < Self.highCount { high = high << 5 | digit } else { low = low << 5 | digit }
        }
        self.high = high
        self.low = low
    }

    package var text: ByteString {
        ByteString(capacity: Self.length) { out in
            for place in 0..<Self.highCount { out.append(Self.character(high >> UInt64(55 - 5 * place))) }
            for place in 0..<Self.length - Self.highCount { out.append(Self.character(low >> UInt64(35 - 5 * place))) }
        }
    }

    /// Whether two contact tokens are equal. The comparison always takes equally long, so that its duration reveals no
    /// part of a token.
    func isSame(as other: UpstreamToken) -> Bool { (high ^ other.high) | (low ^ other.low) == 0 }

    /// The hash of an ``UpstreamToken`` for a table; the hash has the random seed of this process, because tokens come
    /// from the network.
    var tableHash: UInt32 {
        var hasher = Hasher()
        hasher.combine(high)
        hasher.combine(low)
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }

    private static func character(_ digit: UInt64) -> UInt8 {
        let digit = UInt8(truncatingIfNeeded: digit & 31)
        return digit < 26 ? UInt8(ascii: "A") + digit : UInt8(ascii: "2") + digit - 26
    }

    private static func digit(_ character: UInt8) -> UInt64? {
        switch character.asciiLowercased {
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt64(character.asciiLowercased - UInt8(ascii: "a"))
        case UInt8(ascii: "2")...UInt8(ascii: "7"): UInt64(character - UInt8(ascii: "2") + 26)
        default: nil
        }
    }
}

/// Makes and reads the contact tokens of a cluster, which contain the encrypted user.
///
/// Only the node with the duties has the list of all users, but a PBX may call any node. So each node must find the user
/// in the token itself. The same user always gets the same token, at each node.
package struct TokenSeal: Sendable {
    /// Encrypts the name and the domain of a user. The result has only hexadecimal digits.
    package let seal: @Sendable (_ name: ByteString, _ domain: ByteString) -> ByteString
    /// Returns the name and the domain of a user; `nil` for a text that no node of the cluster has made. The case of the
    /// digits does not matter, because some PBXs change it.
    package let open: @Sendable (ByteString) -> (name: ByteString, domain: ByteString)?

    package init(
        seal: @escaping @Sendable (_ name: ByteString, _ domain: ByteString) -> ByteString,
        open: @escaping @Sendable (ByteString) -> (name: ByteString, domain: ByteString)?
    ) {
        (self.seal, self.open) = (seal, open)
    }
}

/// Functions for cryptography and random numbers, which the registration client gets from the shell, because the rules
/// contain neither.
package struct AgentFunctions {
    /// Computes a code of at least 16 bytes for a text: HMAC-SHA-256 with a secret in the store. The code is the same
    /// in every run of the daemon.
    package let code: ([UInt8]) -> [UInt8]
    /// Returns a random number.
    package let random: () -> UInt64
    /// Makes and reads the contact tokens of a cluster; `nil` for a daemon without other nodes.
    let seal: TokenSeal?

    package init(code: @escaping ([UInt8]) -> [UInt8], random: @escaping () -> UInt64, seal: TokenSeal? = nil) {
        self.code = code
        self.random = random
        self.seal = seal
    }

    func token(of user: ByteString, at domain: ByteString, upstream: ByteString) -> UpstreamToken {
        UpstreamToken(code: code(Self.text("token", user, domain, upstream)))
    }

    /// The Call-ID of all REGISTERs of a user; the Call-ID never changes, because some PBXs make one binding for each
    /// Call-ID. The Call-ID must not reveal the user's ``UpstreamToken``, because traces show Call-IDs.
    func callID(of user: ByteString, at domain: ByteString, upstream: ByteString) -> ByteString {
        UpstreamToken(code: code(Self.text("call-id", user, domain, upstream))).text
    }

    /// A random number from 0 to 1, excluding 1.
    func fraction() -> Double { Double(random() >> 11) * 0x1p-53 }

    private static func text(
        _ purpose: StaticString, _ user: ByteString, _ domain: ByteString, _ upstream: ByteString
    ) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(128)
        text.append(purpose)
        // Each part follows its length, so that different lists of parts never give the same text.
        for part in [user, domain, upstream] {
            text.append(0)
            text.append(decimal: part.count)
            text.append(0)
            text.append(part)
        }
        return text
    }
}
