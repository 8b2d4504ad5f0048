import Crypto

/// All keys of the HTTP API, in memory.
///
/// - The class is `@unchecked Sendable`, because it is used only on the shard's loop.
package final class APIKeyRing: @unchecked Sendable {
    private var keys: [String: APIKey] = [:]

    package static let limit = 1000

    package init(_ keys: [APIKey] = []) {
        for key in keys { add(key) }
    }

    package var all: [APIKey] { keys.values.sorted { $0.name < $1.name } }
    package var isFull: Bool { keys.count >= Self.limit }

    package subscript(name: String) -> APIKey? { keys[name] }

    package func add(_ key: APIKey) { keys[key.name] = key }
    package func remove(_ name: String) { keys[name] = nil }

    /// Returns the stored key whose text equals this secret. The duration of the search reveals nothing, because the
    /// search takes the same time for all secrets.
    func key(matching secret: APIKeySecret) -> APIKey? {
        let hash = secret.hash
        var found: APIKey?
        for key in keys.values where equalInConstantTime(key.hash, hash) { found = key }
        return found
    }
}
