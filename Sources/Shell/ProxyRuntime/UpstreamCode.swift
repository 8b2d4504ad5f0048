import Crypto
package import Persistence
package import Timekeeping

/// The secret of the store from which users get their tokens at a PBX. It is created once. With another secret all
/// users would get other tokens, and a PBX would keep two contacts of each user.
package enum UpstreamCode {
    static let name = "upstream-token"

    /// Reads the secret, or creates it. A new secret is persisted before it is used.
    ///
    /// - Returns: the code of bytes: HMAC with SHA-256.
    package static func make(
        store: any ProxyStore, now: UnixTime
    ) async throws(StartError) -> @Sendable ([UInt8]) -> [UInt8] {
        let stored = try await StartError.wrapping { () async throws(StoreError) in
            // The oldest secret counts, so that a second one changes no token.
            try await store.secrets(named: name).last?.value
        }
        let keeping: (StoredSecret, @Sendable ([UInt8]) -> [UInt8])
        do throws(CryptoError) {
            if let stored { return code(of: try HMACKey(stored.span)) }
            let secret = StoredSecret(name: name, createdAt: now, value: try RandomBytes.make(32))
            let key = try HMACKey(secret.value.span)
            keeping = (secret, code(of: key))
        } catch {
            throw StartError("cannot create the key of tokens: \(error)")
        }
        let (secret, code) = keeping
        try await StartError.wrapping { () async throws(StoreError) in try await store.keep([.addSecret(secret)]) }
        return code
    }

    private static func code(of key: consuming HMACKey) -> @Sendable ([UInt8]) -> [UInt8] {
        let box = KeyBox(key)
        return { box.code(for: $0) }
    }

    /// A key that a closure owns. Its internal state changes while it computes a code.
    ///
    /// - `@unchecked Sendable` because it is used only on the engine's thread.
    private final class KeyBox: @unchecked Sendable {
        private var key: HMACKey
        init(_ key: consuming HMACKey) { self.key = key }
        func code(for bytes: [UInt8]) -> [UInt8] { key.code(for: bytes) }
    }
}

/// The stored ceiling of the CSeq of our REGISTERs.
package enum RegisterCeiling {
    private static let key = "register-cseq-ceiling"

    static func change(_ ceiling: UInt32) -> ServiceChange { .note(key: key, value: "\(ceiling)") }

    /// - Returns: 0 if none is stored yet.
    package static func stored(in store: any ProxyStore) async throws(StoreError) -> UInt32 {
        try await store.note(key).flatMap { UInt32($0) } ?? 0
    }
}
