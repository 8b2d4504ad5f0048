package import Timekeeping

/// A stored key of the HTTP API, of which the store has only a hash.
package struct StoredKey: Hashable, Sendable {
    package let name: String
    /// The SHA-256 hash of the key's text; the hash has 32 bytes.
    package let hash: [UInt8]
    /// The names of the scopes, separated by commas.
    package let scopes: String
    package let createdAt: UnixTime
    /// The domains that the key may reach, separated by commas; empty for the whole daemon.
    package let domains: String

    package init(name: String, hash: [UInt8], scopes: String, createdAt: UnixTime, domains: String) {
        self.name = name
        self.hash = hash
        self.scopes = scopes
        self.createdAt = createdAt
        self.domains = domains
    }
}
