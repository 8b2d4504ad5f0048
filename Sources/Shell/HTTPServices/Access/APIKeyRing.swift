import Crypto

/// All keys in memory.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
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

    /// The key whose text this is. Takes as long for a key that is nearly right as for any other.
    func key(matching secret: APIKeySecret) -> APIKey? {
        let hash = secret.hash
        var found: APIKey?
        for key in keys.values where equalInConstantTime(key.hash, hash) { found = key }
        return found
    }
}
