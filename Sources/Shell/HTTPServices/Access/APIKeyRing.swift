import Crypto

/// All API keys of the HTTP API, in memory.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class APIKeyRing: @unchecked Sendable {
    private var keys: [String: APIKey] = [:]
    /// The API keys that are being stored, whose names a new key cannot have.
    private var coming: [String: APIKey] = [:]

    /// The number of changes of the keys by this daemon.
    package private(set) var changes = 0

    package static let limit = 1000
    /// The maximum number of keys for one domain, for keys that administrators of domains add.
    package static let limitOfDomain = 100
    /// How many places for keys are reserved for administrators of the whole daemon.
    static let reserve = 100

    package init(_ keys: [APIKey] = []) {
        for key in keys { add(key) }
    }

    package var all: [APIKey] { keys.values.sorted { $0.name < $1.name } }

    package subscript(name: String) -> APIKey? { keys[name] }

    /// Why an administrator of the given domains cannot add the key; `nil` if the key can be added.
    package func conflict(with key: APIKey, addedBy domains: DomainScope) -> String? {
        if keys[key.name] != nil || coming[key.name] != nil { return "a key named \(key.name) exists already" }
        let limit = Self.limit - (domains == .wholeDaemon ? 0 : Self.reserve)
        guard keys.count + coming.count < limit else { return "the limit of \(limit) keys is reached" }
        guard domains != .wholeDaemon else { return nil }
        let named = (Array(keys.values) + coming.values).filter { $0.domains != .wholeDaemon }
        for domain in key.domains.hosts ?? [] {
            let count = named.count { $0.domains.permits(domain) }
            if count >= Self.limitOfDomain { return "the limit of \(Self.limitOfDomain) keys of a domain is reached" }
        }
        return nil
    }

    /// Reserves the key's name until the key is stored, or storing the key has failed.
    package func addBegins(_ key: APIKey) { coming[key.name] = key }

    package func addEnds(_ key: APIKey, isStored: Bool) {
        coming[key.name] = nil
        if isStored { add(key) }
    }

    package func add(_ key: APIKey) {
        keys[key.name] = key
        changes += 1
    }

    package func remove(_ name: String) {
        keys[name] = nil
        changes += 1
    }

    /// Replaces all keys by the keys of the store. Keys that are being stored keep their names.
    package func replace(by stored: [APIKey]) {
        keys = [:]
        for key in stored { add(key) }
    }

    /// The stored key with the given secret. The search for a key takes the same time for all secrets, so that its
    /// duration reveals nothing.
    func key(matching secret: APIKeySecret) -> APIKey? {
        let hash = secret.hash
        var found: APIKey?
        for key in keys.values where equalInConstantTime(key.hash, hash) { found = key }
        return found
    }
}
