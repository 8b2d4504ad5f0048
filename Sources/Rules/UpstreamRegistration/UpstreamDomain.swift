package import Bytes
package import Timekeeping

/// The index of a domain in the agent's list of all domains with the setting `register-upstream`.
package struct UpstreamNumber: Hashable, Sendable {
    package let rawValue: UInt16
    package init(_ rawValue: UInt16) { self.rawValue = rawValue }
    var index: Int { Int(rawValue) }
}

/// A domain whose users are kept registered at a PBX.
package struct UpstreamDomain: Hashable, Sendable {
    /// The domain of the users, in lower case.
    package let domain: ByteString
    /// The name that goes into the computation of the tokens and Call-IDs of this domain's users.
    package let name: ByteString
    /// The realm of the users' HA1.
    package let realm: ByteString
    /// The expiry that each REGISTER asks for, in seconds.
    package let expires: UInt32
    /// The maximum number of REGISTERs a second to the PBX of this domain.
    package let rate: Int
    /// How long a user is kept registered after a phone of the user has last registered.
    package let keepFor: Duration
    /// Whether the REGISTERs have a Path header field with the address of this daemon (RFC 3327).
    package let hasPath: Bool

    package init(
        domain: ByteString, name: ByteString, realm: ByteString, expires: UInt32 = 3600, rate: Int = 50,
        keepFor: Duration = .seconds(30 * 86_400), hasPath: Bool = false
    ) {
        self.domain = domain
        self.name = name
        self.realm = realm
        self.expires = min(max(expires, Self.shortestGrant), Self.longestGrant)
        self.rate = max(1, rate)
        self.keepFor = keepFor
        self.hasPath = hasPath
    }

    /// The shortest expiry in seconds after which a binding is refreshed. Without this limit, a PBX that grants one
    /// second would get a REGISTER each second.
    static let shortestGrant: UInt32 = 20
    /// The longest expiry in seconds that the agent asks for. If the PBX demands a longer Min-Expires, the agent does
    /// not immediately send another REGISTER.
    static let longestGrant: UInt32 = 604_800
}

/// A user with at least one device that a push can wake.
package struct WakeableUser: Sendable {
    package let upstream: UpstreamNumber
    /// The user's name, with percent escapes decoded.
    package let name: ByteString
    /// The algorithms for which the user has an HA1 in the realm of the domain, or may have one in a source of users;
    /// empty if there is none.
    package let algorithms: DigestAlgorithms
    /// A number that changes when the HA1 changes, and from which the HA1 cannot be computed; `nil` if a source of users
    /// has the HA1 and has not been asked yet.
    package let fingerprint: UInt32?
    /// When a phone of the user last registered.
    package let lastSign: UnixTime
    /// When the user was last called; `nil` if that is unknown.
    package let lastCall: UnixTime?
    /// Whether an earlier run of the daemon may have registered the user at the PBX.
    package let isFromEarlierRun: Bool

    package init(
        upstream: UpstreamNumber, name: ByteString, algorithms: DigestAlgorithms, fingerprint: UInt32?,
        lastSign: UnixTime, lastCall: UnixTime? = nil, isFromEarlierRun: Bool = false
    ) {
        self.upstream = upstream
        self.name = name
        self.algorithms = algorithms
        self.fingerprint = fingerprint
        self.lastSign = lastSign
        self.lastCall = lastCall
        self.isFromEarlierRun = isFromEarlierRun
    }
}

/// A user, named by the number of the domain and the user's name.
package struct UpstreamUser: Hashable, Sendable, CustomStringConvertible {
    package let upstream: UpstreamNumber
    package let name: ByteString

    package init(_ upstream: UpstreamNumber, _ name: ByteString) {
        self.upstream = upstream
        self.name = name
    }

    package var description: String { name.string }
}
