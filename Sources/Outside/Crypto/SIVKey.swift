import COpenSSL

/// A key for AES-128-SIV (RFC 5297): encrypts and authenticates without a nonce, so that the same text with the same
/// associated data always becomes the same bytes and nothing has to be counted or stored.
///
/// OpenSSL has this mode and CMAC, too, but sets up their contexts anew for each message. Here both are made of OpenSSL's
/// AES, whose contexts keep their keys, so that a message needs neither a set-up nor an allocation. User instructions of
/// OpenSSL 3.0.19 for 48 bytes with 36 and 10 associated ones, by callgrind:
///
/// | | instructions |
/// |---|---|
/// | this type, to seal or to open | 3,300 |
/// | `EVP` AES-128-SIV, to seal or to open | 34,000 |
/// | the same from a copy of a keyed context | 15,400 |
/// | a code of 36 bytes by this type; by `CMAC_Final`; by `EVP_MAC` | 1,000; 1,750; 2,150 |
/// | counter mode of 48 bytes by this type; by `EVP` | 840; 1,200 |
///
/// AES-GCM with a kept context takes 3,200 by `EVP` and 1,800 by `CRYPTO_gcm128`, but a nonce makes each token 16 letters
/// longer, and the same token never comes twice. AES-GCM-SIV begins with OpenSSL 3.2.
package struct SIVKey: ~Copyable {
    package static let byteCount = 32
    /// By how many bytes a sealed text is longer.
    package static let overhead = 16

    private let mac: BlockCode
    private let cipher: AESContext
    /// The code of sixteen zeros, with which each message begins.
    private let start: Block
    /// What has been associated with the next message.
    private var chain: Block

    /// - Throws: ``CryptoError/Code/wrongLength`` unless the key has 32 bytes: the halves for the code and for the cipher.
    package init(_ key: Span<UInt8>) throws(CryptoError) {
        guard key.count == Self.byteCount else {
            throw CryptoError(.wrongLength, "A key for AES-128-SIV has \(Self.byteCount) bytes, not \(key.count).")
        }
        let mac = try BlockCode(key.extracting(0..<16))
        let cipher = try AESContext(key.extracting(16..<32))
        start = mac.code(of: 0)
        chain = start
        self.mac = mac
        self.cipher = cipher
    }

    /// Adds a piece of associated data to the next message, which opens only with the same pieces in the same order.
    package mutating func associate(_ data: Span<UInt8>) {
        chain = chain.doubled ^ mac.code(of: data)
    }

    /// Appends the sealed text to `out`.
    package mutating func seal(_ plain: Span<UInt8>, into out: inout [UInt8]) {
        let tag = tag(of: plain)
        unsafe withUnsafeBytes(of: tag.bigEndian) { unsafe out.append(contentsOf: $0) }
        let begin = out.count
        unsafe plain.withUnsafeBufferPointer { unsafe out.append(contentsOf: $0) }
        apply(tag, to: &out, from: begin)
    }

    /// Appends the opened text to `plain`, or nothing if it was not sealed in this way.
    ///
    /// - Returns: whether it was sealed with this key and the same associated data.
    package mutating func open(_ sealed: Span<UInt8>, into plain: inout [UInt8]) -> Bool {
        guard sealed.count >= Self.overhead else {
            chain = start
            return false
        }
        let given = Block(first: sealed)
        let begin = plain.count
        unsafe sealed.extracting(Self.overhead...).withUnsafeBufferPointer { unsafe plain.append(contentsOf: $0) }
        apply(given, to: &plain, from: begin)
        // Two numbers are compared in the same time wherever they differ.
        if tag(of: plain.span.extracting(begin...)) == given { return true }
        plain.removeLast(plain.count - begin)
        return false
    }

    /// S2V of RFC 5297 section 2.4: the synthetic initialisation vector. The next message begins anew.
    private mutating func tag(of plain: Span<UInt8>) -> Block {
        defer { chain = start }
        guard plain.count < 16 else { return mac.code(of: plain, addingToEnd: chain) }
        return mac.code(of: chain.doubled ^ Block(padding: plain))
    }

    /// Counter mode, from the vector without the two bits that let implementations count in 32 bits (section 2.5).
    private func apply(_ tag: Block, to bytes: inout [UInt8], from begin: Int) {
        var counter = tag & ~(1 << 63 | 1 << 31)
        unsafe bytes.withUnsafeMutableBytes { raw in
            for index in stride(from: begin, to: raw.count, by: 64) {
                // Four blocks, as many as most texts have, since a call of OpenSSL costs ten times what a block does.
                var stream = [4 of Block] { (counter &+ Block($0)).bigEndian }
                counter &+= 4
                unsafe withUnsafeMutableBytes(of: &stream) { stream in
                    unsafe cipher.encrypt(stream)
                    for place in 0..<min(stream.count, raw.count - index) {
                        unsafe raw[index + place] ^= stream[place]
                    }
                }
            }
        }
    }
}

/// Sixteen bytes in, sixteen other ones out, which nobody without the key can tell from random ones or turn into others of
/// use: for small values that carry their own check, such as numbers that must be known here. A fifteenth of the cost of ``SIVKey``.
package struct BlockKey: ~Copyable {
    private let forward, backward: AESContext

    /// Makes a key of its own from one for ``SIVKey``, so that neither says anything of the other.
    package init(derivedFrom key: Span<UInt8>) throws(CryptoError) {
        guard key.count == SIVKey.byteCount else {
            throw CryptoError(.wrongLength, "A key for AES-128-SIV has \(SIVKey.byteCount) bytes, not \(key.count).")
        }
        let code = try BlockCode(key.extracting(0..<16)).code(of: Array("sippushd block key".utf8).span)
        var derived = [UInt8](repeating: 0, count: 16)
        unsafe derived.withUnsafeMutableBytes { unsafe $0.storeBytes(of: code.bigEndian, as: Block.self) }
        let forward = try AESContext(derived.span)
        let backward = try AESContext(derived.span, decrypts: true)
        self.forward = forward
        self.backward = backward
    }

    package func sealed(_ high: UInt64, _ low: UInt64) -> (high: UInt64, low: UInt64) {
        forward.encrypted(Block(high: high, low: low)).halves
    }

    package func opened(_ high: UInt64, _ low: UInt64) -> (high: UInt64, low: UInt64) {
        backward.encrypted(Block(high: high, low: low)).halves
    }
}

/// The code of RFC 4493 (AES-CMAC) for messages of any length.
private struct BlockCode: ~Copyable {
    private let cipher: AESContext
    /// Added to a last block that is whole, and to one that was filled up (section 2.3).
    private let whole, filled: Block

    init(_ key: Span<UInt8>) throws(CryptoError) {
        let cipher = try AESContext(key)
        whole = cipher.encrypted(0).doubled
        filled = whole.doubled
        self.cipher = cipher
    }

    /// The code of sixteen bytes.
    func code(of block: Block) -> Block { cipher.encrypted(block ^ whole) }

    /// The code of the bytes, to whose last sixteen, of which there must be so many then, the addend was added (`xorend`
    /// of RFC 5297 section 2.1).
    func code(of bytes: Span<UInt8>, addingToEnd addend: Block = 0) -> Block {
        var state: Block = 0
        var rest = bytes
        while rest.count > 16 {
            // The addend's bytes lie over the last two blocks, unless the bytes are whole blocks.
            state = cipher.encrypted(state ^ Block(first: rest) ^ addend >> (8 * (rest.count - 16)))
            rest = rest.extracting(droppingFirst: 16)
        }
        guard rest.count < 16 else { return code(of: state ^ Block(first: rest) ^ addend) }
        return cipher.encrypted(state ^ Block(padding: rest) ^ addend << (8 * (16 - rest.count)) ^ filled)
    }
}

/// OpenSSL's context of AES-128 for single blocks (ECB), which keeps its key.
///
/// Counter mode is made of it as well: to give OpenSSL's own another vector costs more than a token's three blocks.
@safe
private struct AESContext: ~Copyable {
    let raw: OpaquePointer

    init(_ key: Span<UInt8>, decrypts: Bool = false) throws(CryptoError) {
        precondition(key.count == 16, "AES-128 has keys of 16 bytes")
        guard let raw = unsafe EVP_CIPHER_CTX_new() else { throw .library("AES-128") }
        let isReady = unsafe key.withUnsafeBufferPointer { key in
            unsafe EVP_CipherInit_ex2(raw, EVP_aes_128_ecb(), key.baseAddress, nil, decrypts ? 0 : 1, nil) == 1
                && EVP_CIPHER_CTX_set_padding(raw, 0) == 1
        }
        guard isReady else {
            unsafe EVP_CIPHER_CTX_free(raw)
            throw .library("AES-128")
        }
        unsafe self.raw = raw
    }

    deinit { unsafe EVP_CIPHER_CTX_free(raw) }

    /// The block, encrypted, or decrypted where the context is made for that.
    func encrypted(_ block: Block) -> Block {
        var bytes = block.bigEndian
        unsafe withUnsafeMutableBytes(of: &bytes) { unsafe encrypt($0) }
        return Block(bigEndian: bytes)
    }

    /// The same of some blocks in place.
    func encrypt(_ blocks: UnsafeMutableRawBufferPointer) {
        guard let place = unsafe blocks.bindMemory(to: UInt8.self).baseAddress else { return }
        var written: Int32 = 0
        let isDone = unsafe EVP_CipherUpdate(raw, place, &written, place, Int32(blocks.count)) == 1
        precondition(isDone && Int(written) == blocks.count, "a keyed cipher takes any block")
    }
}

/// Sixteen bytes as a number, most significant first.
private typealias Block = UInt128

extension Block {
    fileprivate init(high: UInt64, low: UInt64) { self = Block(high) << 64 | Block(low) }

    fileprivate var halves: (high: UInt64, low: UInt64) {
        (UInt64(truncatingIfNeeded: self >> 64), UInt64(truncatingIfNeeded: self))
    }

    /// The first sixteen bytes.
    fileprivate init(first bytes: Span<UInt8>) {
        self = unsafe Block(bigEndian: bytes.bytes.unsafeLoadUnaligned(as: Block.self))
    }

    /// Fewer than sixteen bytes, followed by a one bit and zeros (RFC 5297 section 2.1).
    fileprivate init(padding bytes: Span<UInt8>) {
        self = 0
        for index in bytes.indices { self = self << 8 | Block(bytes[index]) }
        self = (self << 8 | 0x80) << (8 * (15 - bytes.count))
    }

    /// The number doubled in the field of 2 to the 128 elements (RFC 5297 section 2.3).
    fileprivate var doubled: Block { self << 1 ^ (self >> 127) * 0x87 }
}
