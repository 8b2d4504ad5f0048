import Crypto
package import Persistence
package import Timekeeping

/// A secret that is created once and stays the same in every run of the daemon and at every node of a cluster.
package enum PermanentSecret {
    package static let byteCount = 32

    /// Reads the secret with the given name from the store. If the store has no such secret, a new secret is created and
    /// stored.
    package static func load(
        _ name: String, from store: any ProxyStore, now: UnixTime
    ) async throws(StartError) -> [UInt8] {
        if let stored = try await stored(name, in: store) { return stored }
        let bytes: [UInt8]
        do throws(CryptoError) {
            bytes = try RandomBytes.make(byteCount)
        } catch {
            throw StartError("cannot create the secret \(name): \(error)")
        }
        let made = StoredSecret(name: name, createdAt: now, value: bytes)
        try await StartError.wrapping { () async throws(StoreError) in try await store.keep([.addSecret(made)]) }
        // If another node creates the secret at the same time, the store keeps only one of both.
        return try await self.stored(name, in: store) ?? bytes
    }

    /// The oldest secret with the given name, because only the oldest stays the same.
    private static func stored(_ name: String, in store: any ProxyStore) async throws(StartError) -> [UInt8]? {
        try await StartError.wrapping { () async throws(StoreError) in
            try await store.secrets(named: name).last?.value
        }
    }
}
