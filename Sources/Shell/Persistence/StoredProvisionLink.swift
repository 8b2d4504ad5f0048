package import Bytes
package import Registration
package import Timekeeping

/// A link with which a phone can once set up a user's account. The store has only a hash of the link's token.
package struct StoredProvisionLink: Hashable, Sendable {
    /// The SHA-256 hash of the token; the hash has 32 bytes.
    package let hash: [UInt8]
    /// The user's name and realm, as the table of users has them.
    package let name: ByteString
    package let realm: ByteString
    /// The domain of the account that the phone gets.
    package let domain: ByteString
    package let createdAt: UnixTime
    package let expiresAt: UnixTime
    /// Whether the user gets a new password when the link is used.
    package let setsPassword: Bool
    /// The name of the key or operator that made the link.
    package let creator: String
    /// The time at which a phone used the link; `nil` while the link is unused.
    package var usedAt: UnixTime?
    /// The address of the phone that used the link; empty while the link is unused.
    package var usedFrom: String

    package init(
        hash: [UInt8], name: ByteString, realm: ByteString, domain: ByteString, createdAt: UnixTime,
        expiresAt: UnixTime, setsPassword: Bool, creator: String, usedAt: UnixTime? = nil, usedFrom: String = ""
    ) {
        self.hash = hash
        self.name = name
        self.realm = realm
        self.domain = domain
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.setsPassword = setsPassword
        self.creator = creator
        self.usedAt = usedAt
        self.usedFrom = usedFrom
    }
}

/// The use of a link by a phone.
package struct ProvisionLinkUse: Hashable, Sendable {
    package let hash: [UInt8]
    package let date: UnixTime
    package let source: String
    /// The user with the hashes of a new password; `nil` if the user keeps the password.
    package let user: DigestUser?

    package init(hash: [UInt8], date: UnixTime, source: String, user: DigestUser?) {
        self.hash = hash
        self.date = date
        self.source = source
        self.user = user
    }
}
