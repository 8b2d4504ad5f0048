import Crypto

/// The key that seals the entries of the journal of calls. It is kept in the store, so that nobody without the store can make
/// a call that the next run would go on with.
///
/// A class, since what is written and what is read share it; on the loop alone.
final class JournalKey {
    private var key: GMACKey

    /// - Parameter secret: ``byteCount`` random bytes.
    /// - Throws: for another number of bytes.
    init(_ secret: [UInt8]) throws(CryptoError) { key = try GMACKey(secret) }

    /// Writes the seal of all bytes from `start` on into the places before them.
    func seal(_ bytes: inout [UInt8], from start: Int) { key.seal(&bytes, from: start) }

    func isSealed(_ bytes: [UInt8], _ range: Range<Int>) -> Bool { key.isSealed(bytes, range) }

    static let byteCount = GMACKey.byteCount
    static let sealCount = GMACKey.sealCount
    /// Its name among the secrets of the store.
    static let name = "call-journal"
}
