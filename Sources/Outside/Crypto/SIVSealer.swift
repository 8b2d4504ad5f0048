/// Encrypts texts by AES-SIV without associated data, so that equal texts give equal results.
///
/// Other modules use this class instead of an ``SIVKey``, because the linker of a release does not find the parts of a
/// noncopyable key in a class of another module.
///
/// - The class is `@unchecked Sendable`, because only its shard's thread uses it.
package final class SIVSealer: @unchecked Sendable {
    private var key: SIVKey

    /// Sets up a key of 32 bytes.
    ///
    /// - Throws: ``CryptoError/Code/wrongLength`` unless the key has 32 bytes.
    package init(_ key: [UInt8]) throws(CryptoError) { self.key = try SIVKey(key.span) }

    package func seal(_ plain: [UInt8]) -> [UInt8] {
        var sealed: [UInt8] = []
        key.seal(plain.span, into: &sealed)
        return sealed
    }

    /// Decrypts a text; `nil` if the text was not encrypted with this key.
    package func open(_ sealed: [UInt8]) -> [UInt8]? {
        var plain: [UInt8] = []
        return key.open(sealed.span, into: &plain) ? plain : nil
    }
}
