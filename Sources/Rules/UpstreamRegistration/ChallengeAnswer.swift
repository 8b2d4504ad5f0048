package import Bytes
package import Registration
package import SIPGrammar

/// The digest algorithms for which the daemon knows a user's HA1, one bit for each algorithm.
package struct DigestAlgorithms: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package init(of algorithm: DigestAlgorithm) {
        switch algorithm {
        case .sha512_256: rawValue = 1
        case .sha256: rawValue = 2
        case .md5: rawValue = 4
        }
    }

    package init(of user: DigestUser) { self = user.ha1.keys.reduce([]) { $0.union(DigestAlgorithms(of: $1)) } }
}

/// The answer to a digest challenge, without the password (RFC 7616 section 3.4; for servers without qop, RFC 2617).
package struct ChallengeAnswer: Hashable, Sendable {
    package let challenge: DigestChallenge
    package let algorithm: DigestAlgorithm
    /// Whether the challenge came in a 407, and not in a 401.
    package let isForProxy: Bool
    /// The nonce count (nc) of the answer to the challenge.
    let count: UInt32
    let cnonce: UInt64

    /// Chooses the challenge with the strongest algorithm for which the user has an HA1; `nil` if no challenge has such
    /// an algorithm.
    static func strongest(
        of challenges: [DigestChallenge], realm: ByteString, _ algorithms: DigestAlgorithms
    ) -> (challenge: DigestChallenge, algorithm: DigestAlgorithm)? {
        // The strongest algorithm is the first case of DigestAlgorithm.
        for algorithm in DigestAlgorithm.allCases where algorithms.contains(DigestAlgorithms(of: algorithm)) {
            let found = challenges.first {
                $0.realm == realm && algorithm.isNamed(by: $0) && ($0.qop == nil || $0.offersAuth)
            }
            if let found { return (found, algorithm) }
        }
        return nil
    }

    /// Makes the header field Authorization or Proxy-Authorization with the credentials of a user.
    ///
    /// - Parameters:
    ///   - user: the name and the HA1 of the user.
    ///   - uri: the Request-URI of the REGISTER.
    ///   - functions: the hash functions.
    /// - Returns: the header field; `nil` if the user has no HA1 for the algorithm.
    package func field(for user: DigestUser, uri: ByteString, _ functions: DigestFunctions) -> AddedField? {
        guard let ha1 = user.ha1[algorithm] else { return nil }
        let usesCount = challenge.qop != nil
        var digits: [UInt8] = []
        digits.append(big: UInt64(count), count: 4)
        let unsigned = DigestCredentials(
            username: user.name, realm: challenge.realm, nonce: challenge.nonce, uri: uri, response: .empty,
            algorithm: challenge.algorithm, qop: usesCount ? ByteString("auth") : nil,
            nonceCount: usesCount ? ByteString(Hex.encode(digits)) : nil,
            cnonce: usesCount ? ByteString(copying: cnonce.hexDigits.span) : nil)
        let response = functions.response(to: unsigned, algorithm, method: .register, ha1: ha1.array)
        let signed = DigestCredentials(
            username: user.name, realm: challenge.realm, nonce: challenge.nonce, uri: uri,
            response: ByteString(response), algorithm: challenge.algorithm, qop: unsigned.qop,
            nonceCount: unsigned.nonceCount, cnonce: unsigned.cnonce)
        let value = ByteString(capacity: 512) { $0.append(signed, opaque: challenge.opaque) }
        return AddedField(isForProxy ? "Proxy-Authorization" : "Authorization", value)
    }
}

extension DigestAlgorithm {
    fileprivate func isNamed(by challenge: DigestChallenge) -> Bool {
        guard let name = challenge.algorithm else { return self == .md5 }
        return name.count == rawValue.utf8.count && name.hasPrefix(ignoringCase: rawValue)
    }
}

/// The properties of a kept challenge besides its nonce and opaque value, one bit for each property.
struct KeptForm: OptionSet, Sendable {
    let rawValue: UInt8

    static let md5 = KeptForm(rawValue: 1)
    static let sha256 = KeptForm(rawValue: 2)
    static let sha512_256 = KeptForm(rawValue: 4)
    static let namesAlgorithm = KeptForm(rawValue: 8)
    static let offersAuth = KeptForm(rawValue: 16)
    static let hasOpaque = KeptForm(rawValue: 32)
    static let isForProxy = KeptForm(rawValue: 64)

    init(rawValue: UInt8) { self.rawValue = rawValue }

    init(_ challenge: DigestChallenge, _ algorithm: DigestAlgorithm, isForProxy: Bool) {
        var form: KeptForm =
            switch algorithm {
            case .md5: .md5
            case .sha256: .sha256
            case .sha512_256: .sha512_256
            }
        if challenge.algorithm != nil { form.insert(.namesAlgorithm) }
        if challenge.qop != nil { form.insert(.offersAuth) }
        if challenge.opaque != nil { form.insert(.hasOpaque) }
        if isForProxy { form.insert(.isForProxy) }
        self = form
    }

    var algorithm: DigestAlgorithm { contains(.md5) ? .md5 : contains(.sha256) ? .sha256 : .sha512_256 }
}

/// Packs a challenge into bytes, and unpacks it again. The bytes are one byte with the length of the nonce, the nonce,
/// and the opaque value.
enum KeptChallenge {
    /// The maximum length in bytes of nonce and opaque value of a kept challenge.
    private static let longest = 192

    static func bytes(of challenge: DigestChallenge) -> [UInt8]? {
        let opaque = challenge.opaque ?? .empty
        guard challenge.nonce.count + opaque.count < longest else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(1 + challenge.nonce.count + opaque.count)
        bytes.append(UInt8(truncatingIfNeeded: challenge.nonce.count))
        bytes.append(challenge.nonce)
        bytes.append(opaque)
        return bytes
    }

    static func challenge(_ bytes: Span<UInt8>, _ form: KeptForm, realm: ByteString) -> DigestChallenge? {
        guard bytes.count > 1, bytes.count > Int(bytes[0]) else { return nil }
        let end = 1 + Int(bytes[0])
        return DigestChallenge(
            realm: realm, nonce: ByteString(copying: bytes.extracting(1..<end)),
            opaque: form.contains(.hasOpaque) ? ByteString(copying: bytes.extracting(end..<bytes.count)) : nil,
            algorithm: form.contains(.namesAlgorithm) ? ByteString(form.algorithm.rawValue) : nil,
            qop: form.contains(.offersAuth) ? ByteString("auth") : nil)
    }
}
