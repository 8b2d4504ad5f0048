package import Bytes

/// The rules by which the daemon accepts bearer tokens (RFC 8898).
package struct BearerRules: Hashable, Sendable {
    /// A server that issues bearer tokens for the users of some domains.
    package struct Issuer: Hashable, Sendable {
        /// The name of the issuer in the settings.
        package var name: String
        /// The domains for whose users the issuer's tokens are accepted, in lower case; empty for all domains.
        package var domains: Set<ByteString> = []
        /// The value of the claim `iss` in the issuer's tokens.
        package var issuer: String
        /// The names of this service; the claim `aud` of each token must contain at least one of the names.
        package var audiences: [String]
        /// The name of the claim that contains the user's name.
        package var claim = "sub"
        package var algorithms: Set<BearerKey.Algorithm> = [.rs256, .es256]
        /// The largest accepted difference between the issuer's clock and the daemon's clock.
        package var leeway: Duration = .seconds(30)
        /// The URL of the server from which phones get tokens, for `authz_server` in challenges.
        package var server: ByteString
        /// The scope in challenges; phones request the scope from the token server. The value `nil` means no scope.
        package var scope: ByteString?
        /// The interval at which the keys of the issuer are read again.
        package var refresh: Duration = .seconds(600)

        package init(name: String, issuer: String, audiences: [String], server: ByteString) {
            self.name = name
            self.issuer = issuer
            self.audiences = audiences
            self.server = server
        }

        func serves(_ domain: ByteString) -> Bool { domains.isEmpty || domains.contains(domain.lowercased()) }
    }

    /// The issuers of tokens, at most one for each domain.
    package var issuers: [Issuer] = []
    /// The maximum number of remembered tokens; the signature of a remembered token is not checked again.
    package var remembered = 100_000

    package init() {}
}

/// A public key with which an issuer signs tokens.
package struct BearerKey: Sendable {
    package enum Algorithm: String, Hashable, Sendable, CaseIterable {
        case rs256 = "RS256"
        case es256 = "ES256"
    }

    /// The name of the key (`kid`); `nil` if the key has no name.
    package let id: ByteString?
    package let algorithm: Algorithm
    /// A digest of the key, which identifies the key by its content.
    package let print: ByteString
    /// Checks whether the key made a signature of a message. The function comes from the shell, because the rules
    /// contain no cryptography.
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

/// Why the daemon refuses a bearer token.
package enum BearerFault: Hashable, Sendable {
    case malformed, tooLong, repeated, algorithm, issuer, audience, expired, early, endless, noUser, otherDomain
    case unknownKey, signature

    /// The fault in words for log lines; the words never contain parts of a token.
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
