import Crypto

/// The key that seals the entries of the call journal, kept in the store. Without access to the store, nobody can forge
/// a call that the next run would resume.
///
/// The key is a class, because writers and readers share it. The key is used only on the loop.
final class JournalKey {
    private var key: GMACKey

    /// - Parameter secret: ``byteCount`` random bytes.
    /// - Throws: an error if the secret has another length.
    init(_ secret: [UInt8]) throws(CryptoError) { key = try GMACKey(secret) }

    /// Computes the seal of all bytes from `start` on, and writes the seal directly before `start`.
    func seal(_ bytes: inout [UInt8], from start: Int) { key.seal(&bytes, from: start) }

    func isSealed(_ bytes: [UInt8], _ range: Range<Int>) -> Bool { key.isSealed(bytes, range) }

    static let byteCount = GMACKey.byteCount
    static let sealCount = GMACKey.sealCount
    /// The key's name among the secrets of the store.
    static let name = "call-journal"
}
