import Bytes
import Crypto
package import Persistence
package import Timekeeping
package import UpstreamRegistration

/// The secret in the store from which each user's `UpstreamToken` is computed. The secret never changes, because with a
/// new `UpstreamToken`, the user's old contact would stay at the PBX.
package enum UpstreamCode {
    static let name = "upstream-token"

    /// Reads the secret from the store, or creates and stores a secret.
    ///
    /// - Returns: a function that computes the HMAC-SHA-256 of its argument with the secret.
    package static func make(
        store: any ProxyStore, now: UnixTime
    ) async throws(StartError) -> @Sendable ([UInt8]) -> [UInt8] {
        let secret = try await PermanentSecret.load(name, from: store, now: now)
        do throws(CryptoError) {
            let key = try KeyBox(secret)
            return { key.code(for: $0) }
        } catch {
            throw StartError("cannot create the key of tokens: \(error)")
        }
    }
}

extension UpstreamCode {
    /// The contact tokens of a cluster: the users' names, encrypted by AES-SIV with a key from the secret in the store.
    ///
    /// - Parameter code: the function of ``make(store:now:)``.
    /// - Returns: the functions that encrypt and decrypt a token.
    /// - Throws: ``StartError`` if OpenSSL has no AES.
    package static func seal(_ code: ([UInt8]) -> [UInt8]) throws(StartError) -> TokenSeal {
        let key: SIVSealer
        do throws(CryptoError) {
            key = try SIVSealer(code(Array("sealed-token".utf8)))
        } catch {
            throw StartError("cannot create the key of tokens: \(error)")
        }
        return TokenSeal(
            seal: { name, domain in
                var plain = domain.array
                plain.append(separator)
                plain.append(name)
                return ByteString(Hex.encode(key.seal(plain)))
            },
            open: { text in
                guard text.count <= longestToken, let sealed = text.lowercased().withSpan({ Hex.decode($0) }),
                    let plain = key.open(sealed), let end = plain.firstIndex(of: separator)
                else { return nil }
                return (ByteString(plain[(end + 1)...]), ByteString(plain[..<end]))
            })
    }

    /// Ends the domain, which never contains this byte.
    private static let separator: UInt8 = 0
    private static let longestToken = 2 * (SIVKey.overhead + 255 + 1 + 255)
}

/// Stores and reads the upper limit of the CSeq numbers in the daemon's REGISTERs, so that the next run uses higher
/// numbers.
package enum RegisterCeiling {
    private static let key = "register-cseq-ceiling"

    static func change(_ ceiling: UInt32) -> ServiceChange { .note(key: key, value: "\(ceiling)") }

    /// Reads from the store the limit of CSeq numbers that earlier runs may have used.
    ///
    /// - Returns: the limit; 0 if the store has no limit yet.
    package static func stored(in store: any ProxyStore) async throws(StoreError) -> UInt32 {
        try await store.note(key).flatMap { UInt32($0) } ?? 0
    }
}
