package import Bytes

/// Encrypts short texts for use in URIs, and decrypts them. Without the key, nobody can read, change or create an
/// encrypted text.
///
/// The result is the base64url form of the key's number and the AES-SIV ciphertext. Each text is bound to two other
/// texts: the sealer decrypts the text only together with these two texts. The newest key encrypts, and older keys only
/// decrypt. After its first use, a sealer allocates memory only for its results.
///
/// - The type is `@unchecked Sendable`, because only its shard's thread uses it.
package final class TextSealer: @unchecked Sendable {
    package struct Opened {
        package let plain: [UInt8]
        /// A digest of the encrypted text: the key's number in the upper eight bits, then the start of the text's tag.
        package let digest: UInt64
    }

    /// The maximum length of an encrypted text in bytes; longer texts are invalid.
    package static let maximumLength = 240

    private var keys: [Key] = []
    private var scratch: [UInt8] = []

    private final class Key {
        let number: UInt8
        var key: SIVKey
        let blocks: BlockKey

        init(_ number: UInt8, _ key: Span<UInt8>) throws(CryptoError) {
            self.number = number
            self.key = try SIVKey(key)
            blocks = try BlockKey(derivedFrom: key)
        }

        func associate(_ first: ByteString, _ second: ByteString) {
            first.withSpan { span in key.associate(span) }
            second.withSpan { span in key.associate(span) }
        }
    }

    package init() {}

    /// Sets the key that encrypts from now on, and replaces a key with the same number.
    package func use(_ key: [UInt8], number: UInt8) throws(CryptoError) {
        let new = try Key(number, key.span)
        forget(number)
        keys.insert(new, at: 0)
    }

    /// Adds a key that only decrypts, unless a key with the same number is there.
    package func know(_ key: [UInt8], number: UInt8) throws(CryptoError) {
        guard !keys.contains(where: { $0.number == number }) else { return }
        keys.append(try Key(number, key.span))
    }

    /// Removes a key; texts that were encrypted with the key can no longer be decrypted.
    package func forget(_ number: UInt8) { keys.removeAll { $0.number == number } }

    /// Encrypts a text, and binds it to two other texts.
    ///
    /// - Precondition: a key was set by ``use(_:number:)``.
    package func seal(_ plain: [UInt8], with first: ByteString, _ second: ByteString) -> [UInt8] {
        guard let key = keys.first else { preconditionFailure("nothing is sealed before there is a key") }
        var bytes = takeScratch()
        defer { scratch = bytes }
        bytes.append(key.number)
        key.associate(first, second)
        key.key.seal(plain.span, into: &bytes)
        return Base64.url.encode(bytes.span)
    }

    /// Decrypts a text; returns `nil` if no key encrypted the text together with `first` and `second`.
    package func open(_ text: ByteString, with first: ByteString, _ second: ByteString) -> Opened? {
        guard text.count <= Self.maximumLength else { return nil }
        var bytes = takeScratch()
        defer { scratch = bytes }
        let isText = text.withSpan { span in Base64.url.decode(span, into: &bytes) }
        guard isText, bytes.count > 8, let number = bytes.first,
            let key = keys.first(where: { $0.number == number })
        else { return nil }
        var digest: UInt64 = 0
        for index in 0..<8 { digest = digest << 8 | UInt64(bytes[index]) }
        key.associate(first, second)
        var plain: [UInt8] = []
        plain.reserveCapacity(bytes.count)
        guard key.key.open(bytes.span.extracting(1...), into: &plain) else { return nil }
        return Opened(plain: plain, digest: digest)
    }

    /// Encrypts sixteen bytes, given as two integers. The integers must contain a value by which the receiver
    /// recognises a forgery.
    ///
    /// - Precondition: a key was set by ``use(_:number:)``.
    package func seal(_ high: UInt64, _ low: UInt64) -> [23 of UInt8] {
        guard let key = keys.first else { preconditionFailure("nothing is sealed before there is a key") }
        let sealed = key.blocks.sealed(high, low)
        let bytes: [17 of UInt8] = .init { place in
            switch place {
            case 0: key.number
            case 1...8: UInt8(truncatingIfNeeded: sealed.high >> UInt64(64 - 8 * place))
            default: UInt8(truncatingIfNeeded: sealed.low >> UInt64(128 - 8 * place))
            }
        }
        return .init(initializingWith: { Base64.url.encode(bytes.span, into: &$0) })
    }

    /// Decrypts sixteen bytes without checking them; returns `nil` if the text is malformed or its key is unknown.
    package func openBlock(_ text: ByteString) -> (high: UInt64, low: UInt64)? {
        guard text.count <= Self.maximumLength else { return nil }
        var bytes = takeScratch()
        defer { scratch = bytes }
        let isText = text.withSpan { span in Base64.url.decode(span, into: &bytes) }
        guard isText, bytes.count == 17, let key = keys.first(where: { $0.number == bytes[0] }) else { return nil }
        func number(_ range: Range<Int>) -> UInt64 { bytes[range].reduce(0) { $0 << 8 | UInt64($1) } }
        return key.blocks.opened(number(1..<9), number(9..<17))
    }

    /// Takes the emptied buffer out of `scratch`, into which the caller must store the buffer again.
    private func takeScratch() -> [UInt8] {
        var bytes: [UInt8] = []
        swap(&bytes, &scratch)
        bytes.removeAll(keepingCapacity: true)
        return bytes
    }
}
