import Crypto

/// The key that authenticates the entries of the call journal (GMAC). The journal key is in the store, so that nobody
/// without access to the store can forge a call that a restart would resume.
///
/// ``JournalKey`` is a class, because writers and readers of the journal share the key on one loop.
final class JournalKey {
    private var key: GMACKey

    /// - Parameter secret: ``byteCount`` random bytes.
    /// - Throws: an error if the secret has a wrong length.
    init(_ secret: [UInt8]) throws(CryptoError) { key = try GMACKey(secret) }

    /// Computes the authentication code of all bytes from `start` on, and writes the code immediately before `start`.
    func seal(_ bytes: inout [UInt8], from start: Int) { key.seal(&bytes, from: start) }

    func isSealed(_ bytes: [UInt8], _ range: Range<Int>) -> Bool { key.isSealed(bytes, range) }

    static let byteCount = GMACKey.byteCount
    static let sealCount = GMACKey.sealCount
    /// The name under which the store keeps the key of the call journal.
    static let name = "call-journal"
}
