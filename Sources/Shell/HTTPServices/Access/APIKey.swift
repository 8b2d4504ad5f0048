import Bytes
import Crypto
package import Persistence
package import ProxyRuntime
package import Timekeeping

/// A key of the HTTP API as the store has it, with a hash instead of the key's text.
package struct APIKey: Hashable, Sendable {
    /// The name that operators gave to the key, as the audit log shows it.
    package let name: String
    /// The SHA-256 hash of the key's text, 32 bytes.
    package let hash: [UInt8]
    package let scopes: Set<APIScope>
    package let createdAt: UnixTime
    package let domains: DomainScope

    /// - Returns: the key; `nil` if the name cannot be part of a path or a log line, the hash is not 32 bytes long, or
    ///   the scopes are empty.
    package init?(
        name: String, hash: [UInt8], scopes: Set<APIScope>, createdAt: UnixTime, domains: DomainScope = .wholeDaemon
    ) {
        guard Self.isName(name), hash.count == 32, !scopes.isEmpty else { return nil }
        self.name = name
        self.hash = hash
        self.scopes = scopes
        self.createdAt = createdAt
        self.domains = domains
    }

    /// Creates the key from its row in the store; `nil` if the row is malformed.
    package init?(_ stored: StoredKey) {
        guard let scopes = APIScope.set(stored.scopes), let domains = DomainScope(stored.domains) else { return nil }
        self.init(name: stored.name, hash: stored.hash, scopes: scopes, createdAt: stored.createdAt, domains: domains)
    }

    package var stored: StoredKey {
        StoredKey(name: name, hash: hash, scopes: scopes.names, createdAt: createdAt, domains: domains.text)
    }

    package static func isName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { $0.isNameByte || $0 == UInt8(ascii: ".") } && !name.allSatisfy { $0 == "." }
    }
}

/// The text of an API key that a client sends: a prefix and 32 random bytes. The prefix of API keys lets scanners of
/// source code find leaked keys.
package struct APIKeySecret {
    package let text: String

    private static let prefix = "spd_"
    private static let length = 47

    /// Creates a new random API key. `sippushd apikey add` shows the key's text once, and the store has only a hash.
    package static func make() throws(StartError) -> APIKeySecret {
        do throws(CryptoError) {
            let random = try RandomBytes.make(32)
            return APIKeySecret(text: prefix + String(decoding: Base64.url.encode(random), as: UTF8.self))
        } catch {
            throw StartError("cannot get random bytes: \(error)")
        }
    }

    private init(text: String) { self.text = text }

    /// - Returns: the key's text; `nil` if the text does not have the form of a key. A text with another length than a
    ///   key is refused without hashing.
    init?(_ text: some StringProtocol) {
        guard text.utf8.count == Self.length, text.hasPrefix(Self.prefix) else { return nil }
        self.text = String(text)
    }

    package var hash: [UInt8] { HashAlgorithm.sha256.digest(of: Array(text.utf8)) }
}
