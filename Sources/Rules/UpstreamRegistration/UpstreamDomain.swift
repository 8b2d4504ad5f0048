package import Bytes
package import Timekeeping

/// The place of a domain with `register-upstream` in the list of such domains.
package struct UpstreamNumber: Hashable, Sendable {
    package let rawValue: UInt16
    package init(_ rawValue: UInt16) { self.rawValue = rawValue }
    var index: Int { Int(rawValue) }
}

/// A domain whose users are kept registered at a PBX.
package struct UpstreamDomain: Hashable, Sendable {
    /// The domain of the users, in lower case.
    package let domain: ByteString
    /// The upstream as the settings name it. It is part of the tokens.
    package let name: ByteString
    /// The realm of the users' HA1.
    package let realm: ByteString
    /// The time that is asked for, in seconds.
    package let expires: UInt32
    /// The maximum number of REGISTERs a second.
    package let rate: Int
    /// How long a user is kept registered after the last sign of life of a phone.
    package let keepFor: Duration
    /// Whether REGISTERs have a Path to this daemon (RFC 3327).
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

    /// A grant below this is treated as this long. Else a PBX that grants a second would get a REGISTER each second.
    static let shortestGrant: UInt32 = 20
    /// A Min-Expires above this is refused.
    static let longestGrant: UInt32 = 604_800
}

/// A user who has a device that can be woken.
package struct WakeableUser: Sendable {
    package let upstream: UpstreamNumber
    /// The user's name, without escapes.
    package let name: ByteString
    /// The algorithms of the user's HA1; empty if there is no HA1 in the realm.
    package let algorithms: DigestAlgorithms
    /// A number that changes when the HA1 changes. It must not tell the HA1.
    package let fingerprint: UInt32
    /// When a phone of the user last registered.
    package let lastSign: UnixTime
    /// When the user was last called; `nil` if that is unknown.
    package let lastCall: UnixTime?
    /// Whether an earlier run may have registered the user.
    package let isFromEarlierRun: Bool

    package init(
        upstream: UpstreamNumber, name: ByteString, algorithms: DigestAlgorithms, fingerprint: UInt32,
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

/// One user of one domain.
package struct UpstreamUser: Hashable, Sendable, CustomStringConvertible {
    package let upstream: UpstreamNumber
    package let name: ByteString

    package init(_ upstream: UpstreamNumber, _ name: ByteString) {
        self.upstream = upstream
        self.name = name
    }

    package var description: String { name.string }
}
