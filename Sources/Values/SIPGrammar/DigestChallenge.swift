package import Bytes

/// A digest challenge from a WWW-Authenticate or Proxy-Authenticate field, with unquoted values (RFC 7616 section 3.3).
package struct DigestChallenge: Hashable, Sendable {
    package let realm, nonce: ByteString
    package let opaque: ByteString?
    /// The digest algorithm; `nil` if the server named none, which means MD5.
    package let algorithm: ByteString?
    /// The parameter `qop`, such as `auth,auth-int`; `nil` if the server sent no `qop` (RFC 2617 section 3.2.1).
    package let qop: ByteString?
    /// Whether the server refused the request only for its old nonce, and not for a wrong password (`stale=true`).
    package let isStale: Bool

    package init(
        realm: ByteString, nonce: ByteString, opaque: ByteString? = nil, algorithm: ByteString? = nil,
        qop: ByteString? = nil, isStale: Bool = false
    ) {
        self.realm = realm
        self.nonce = nonce
        self.opaque = opaque
        self.algorithm = algorithm
        self.qop = qop
        self.isStale = isStale
    }

    /// Whether the server offers the qop value `auth`.
    package var offersAuth: Bool {
        qop?.parts(separatedBy: UInt8(ascii: ",")).contains { $0.trimmed.equalsIgnoringCase("auth") } ?? false
    }

    /// The length in bytes from which a value is too long. The daemon ignores a challenge with such a value, because
    /// the daemon may store values.
    private static let longestValue = 1024
    private static let mostInRow = 8

    /// Reads the digest challenges in one header field, separated by commas (RFC 7235 section 4.1). Challenges of other
    /// schemes, and challenges without realm or nonce, are left out.
    package static func all(in row: ByteString) -> [DigestChallenge] {
        var challenges: [DigestChallenge] = []
        var parts: Parts?
        var reader = ChallengeReader(row: row)
        while challenges.count < mostInRow, let item = reader.next() {
            switch item {
            case .scheme(let name):
                if let challenge = parts?.challenge { challenges.append(challenge) }
                parts = name.equalsIgnoringCase("digest") ? Parts() : nil
            case .parameter(let name, let value): parts?.take(name, value)
            }
        }
        if challenges.count < mostInRow, let challenge = parts?.challenge { challenges.append(challenge) }
        return challenges
    }

    private struct Parts {
        var realm, nonce, opaque, algorithm, qop, stale: ByteString?
        var isTooLong = false

        mutating func take(_ name: ByteString, _ value: ByteString) {
            if value.count >= DigestChallenge.longestValue { isTooLong = true }
            if name.equalsIgnoringCase("realm") {
                realm = realm ?? value
            } else if name.equalsIgnoringCase("nonce") {
                nonce = nonce ?? value
            } else if name.equalsIgnoringCase("opaque") {
                opaque = opaque ?? value
            } else if name.equalsIgnoringCase("algorithm") {
                algorithm = algorithm ?? value
            } else if name.equalsIgnoringCase("qop") {
                qop = qop ?? value
            } else if name.equalsIgnoringCase("stale") {
                stale = stale ?? value
            }
        }

        var challenge: DigestChallenge? {
            guard !isTooLong, let realm, let nonce, !nonce.isEmpty else { return nil }
            return DigestChallenge(
                realm: realm, nonce: nonce, opaque: opaque, algorithm: algorithm, qop: qop,
                isStale: stale?.equalsIgnoringCase("true") ?? false)
        }
    }
}

extension ByteString {
    fileprivate var trimmed: ByteString { self[withSpan { $0.trimmed(0..<$0.count) }] }
}

/// Splits a challenge field's value into names of schemes and parameters.
private struct ChallengeReader {
    enum Item {
        case scheme(ByteString)
        case parameter(ByteString, ByteString)
    }

    let row: ByteString
    private var index = 0

    init(row: ByteString) { self.row = row }

    mutating func next() -> Item? {
        skip { $0.isLinearSpace || $0 == UInt8(ascii: ",") }
        let name = token()
        guard !name.isEmpty else { return nil }
        skip(\.isLinearSpace)
        guard index < row.count, row[index] == UInt8(ascii: "=") else { return .scheme(name) }
        index += 1
        skip(\.isLinearSpace)
        return .parameter(name, value())
    }

    private mutating func value() -> ByteString {
        guard index < row.count, row[index] == UInt8(ascii: "\"") else {
            let value = token()
            // A value can be neither a token nor a quoted string, such as base64 of another scheme. Such a value ends
            // at the next comma or blank.
            skip { !$0.isLinearSpace && $0 != UInt8(ascii: ",") }
            return value
        }
        let start = index
        index = row.withSpan { $0.quoteEnd(from: start + 1, to: $0.count) } ?? row.count
        return row[start..<index].unquoted()
    }

    private mutating func token() -> ByteString {
        let start = index
        skip(\.isToken)
        return row[start..<index]
    }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) {
        while index < row.count, isSkipped(row[index]) { index += 1 }
    }
}
