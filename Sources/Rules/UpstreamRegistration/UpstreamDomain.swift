package import Bytes
package import Timekeeping

/// The index of a domain in the registration client's list of domains with the setting `register-upstream`.
package struct UpstreamNumber: Hashable, Sendable {
    package let rawValue: UInt16
    package init(_ rawValue: UInt16) { self.rawValue = rawValue }
    var index: Int { Int(rawValue) }
}

/// A domain whose users are kept registered at a PBX.
package struct UpstreamDomain: Hashable, Sendable {
    /// The domain of the users, in lower case.
    package let domain: ByteString
    /// The name from which the tokens and Call-IDs of the domain's users are computed.
    package let name: ByteString
    /// The realm for which the users' HA1 was made.
    package let realm: ByteString
    /// The expiry in seconds for which each REGISTER asks.
    package let expires: UInt32
    /// The maximum number of REGISTERs a second to the PBX of the domain.
    package let rate: Int
    /// How long the daemon keeps a user registered at the PBX after the last REGISTER of the user's phones.
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

    /// The shortest expiry in seconds after which a binding is refreshed. The lower limit prevents a REGISTER each
    /// second to a PBX that grants one second.
    static let shortestGrant: UInt32 = 20
    /// The longest expiry in seconds that the registration client requests. If the Min-Expires of a PBX is longer, the
    /// daemon sends no second REGISTER immediately.
    static let longestGrant: UInt32 = 604_800
}

/// A user with at least one device that a push can wake.
package struct WakeableUser: Sendable {
    package let upstream: UpstreamNumber
    /// The user's name, with percent escapes decoded.
    package let name: ByteString
    /// The algorithms of the user's HA1 in the domain's realm, also from a source of users; empty if the user has no
    /// HA1.
    package let algorithms: DigestAlgorithms
    /// A number that changes with the HA1 but does not reveal it; `nil` if a source of users has the HA1 and was not
    /// asked yet.
    package let fingerprint: UInt32?
    /// When a phone of the user last registered.
    package let lastSign: UnixTime
    /// When the user was last called; `nil` if the time is unknown.
    package let lastCall: UnixTime?
    /// Whether the user may have been registered at the PBX before the daemon restarted.
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

/// A user, identified by the number of the domain and the user's name.
package struct UpstreamUser: Hashable, Sendable, CustomStringConvertible {
    package let upstream: UpstreamNumber
    package let name: ByteString

    package init(_ upstream: UpstreamNumber, _ name: ByteString) {
        self.upstream = upstream
        self.name = name
    }

    package var description: String { name.string }
}
