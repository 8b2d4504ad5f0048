package import Bytes

/// The rules by which bearer tokens are accepted (RFC 8898).
package struct BearerRules: Hashable, Sendable {
    /// A server whose tokens prove users of some domains.
    package struct Issuer: Hashable, Sendable {
        /// The name in the settings.
        package var name: String
        /// The domains whose users the tokens prove, in lower case; empty for all domains.
        package var domains: Set<ByteString> = []
        /// The claim `iss` of each token.
        package var issuer: String
        /// A token must name one of these in its claim `aud`.
        package var audiences: [String]
        /// The claim with the user's name.
        package var claim = "sub"
        package var algorithms: Set<BearerKey.Algorithm> = [.rs256, .es256]
        /// How far the clock of the issuer may differ.
        package var leeway: Duration = .seconds(30)
        /// The address of the server from which phones get tokens, for challenges.
        package var server: ByteString
        /// The scope that phones ask for; `nil` for none.
        package var scope: ByteString?
        /// How often the keys are read again.
        package var refresh: Duration = .seconds(600)

        package init(name: String, issuer: String, audiences: [String], server: ByteString) {
            self.name = name
            self.issuer = issuer
            self.audiences = audiences
            self.server = server
        }

        func serves(_ domain: ByteString) -> Bool { domains.isEmpty || domains.contains(domain.lowercased()) }
    }

    /// The issuers. A domain has at most one.
    package var issuers: [Issuer] = []
    /// The maximum number of tokens whose proof is remembered.
    package var remembered = 100_000

    package init() {}
}

/// A public key of an issuer.
package struct BearerKey: Sendable {
    package enum Algorithm: String, Hashable, Sendable, CaseIterable {
        case rs256 = "RS256"
        case es256 = "ES256"
    }

    /// The name of the key (`kid`); `nil` if it has none.
    package let id: ByteString?
    package let algorithm: Algorithm
    /// Identifies the key by its content.
    package let print: ByteString
    /// Whether the key made the signature for the message. The shell provides the function, because this module
    /// contains no cryptography.
    package let isValid: @Sendable (_ signature: [UInt8], _ message: [UInt8]) -> Bool

    package init(
        id: ByteString?, algorithm: Algorithm, print: ByteString,
        isValid: @escaping @Sendable (_ signature: [UInt8], _ message: [UInt8]) -> Bool
    ) {
        self.id = id
        self.algorithm = algorithm
        self.print = print
        self.isValid = isValid
    }
}

/// Why a token does not prove a user.
package enum BearerFault: Hashable, Sendable {
    case malformed, tooLong, repeated, algorithm, issuer, audience, expired, early, endless, noUser, otherDomain
    case unknownKey, signature

    /// Whether the token counts as a wrong password (T8). Only a forged signature is a guess. Phones show expired tokens
    /// without harm, and the other faults cost no computation.
    package var isGuess: Bool { self == .signature }

    /// The fault in words for log lines. They never contain parts of a token.
    package var sentence: StaticString {
        switch self {
        case .malformed: "its token is not a signed JWT"
        case .tooLong: "its token is too long"
        case .repeated: "it has two tokens"
        case .algorithm: "the algorithm of its token is not allowed"
        case .issuer: "its token is of another issuer (iss)"
        case .audience: "its token is for another audience (aud)"
        case .expired: "its token has expired"
        case .early: "its token is not valid yet (nbf)"
        case .endless: "its token has no expiry (exp)"
        case .noUser: "its token names no user"
        case .otherDomain: "its token is of a user of another domain"
        case .unknownKey: "no known key fits its token"
        case .signature: "the signature of its token is wrong"
        }
    }
}
