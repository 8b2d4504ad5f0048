import COpenSSL

/// A key for AES-128-SIV (RFC 5297): encrypts and authenticates without a nonce, so that the same text with the same
/// associated data always becomes the same bytes and nothing has to be counted or stored.
///
/// OpenSSL has this mode and CMAC, too, but their contexts are set up anew for each message, which costs four times what
/// the ciphers do. Here the mode is made of OpenSSL's AES, block by block and in counter mode, whose contexts keep their
/// keys, so that a message needs neither a set-up nor an allocation.
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
        start = mac.code(of: [UInt8](repeating: 0, count: 16).span)
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
        tag.append(to: &out)
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
        let given = Block(sealed)
        let begin = plain.count
        unsafe sealed.extracting(Self.overhead...).withUnsafeBufferPointer { unsafe plain.append(contentsOf: $0) }
        apply(given, to: &plain, from: begin)
        guard tag(of: plain.span.extracting(begin...)).differs(from: given) else { return true }
        plain.removeLast(plain.count - begin)
        return false
    }

    /// S2V of RFC 5297 section 2.4: the synthetic initialisation vector. The next message begins anew.
    private mutating func tag(of plain: Span<UInt8>) -> Block {
        defer { chain = start }
        guard plain.count < 16 else { return mac.code(of: plain, addingToEnd: chain) }
        return mac.code(of: (chain.doubled ^ Block(padding: plain)).bytes.span)
    }

    /// Counter mode, from the vector without the two bits that let implementations count in 32 bits (section 2.5).
    private func apply(_ tag: Block, to bytes: inout [UInt8], from begin: Int) {
        var counter = Block(high: tag.high, low: tag.low & 0x7fff_ffff_7fff_ffff)
        unsafe bytes.withUnsafeMutableBytes { raw in
            var index = begin
            while index < raw.count {
                // Four blocks, as many as most texts have, since a call of OpenSSL costs ten times what a block does.
                var stream = [8 of UInt64](repeating: 0)
                for block in 0..<4 {
                    stream[2 * block] = counter.high.bigEndian
                    stream[2 * block + 1] = counter.low.bigEndian
                    counter = counter.next
                }
                unsafe withUnsafeMutableBytes(of: &stream) { stream in
                    unsafe cipher.encrypt(stream)
                    for place in 0..<min(stream.count, raw.count - index) {
                        unsafe raw[index + place] ^= stream[place]
                    }
                }
                index += 64
            }
        }
    }
}

/// Sixteen bytes in, sixteen other ones out, which nobody without the key can tell from random ones or turn into others of
/// use: for small values that carry their own check, such as numbers that must be known here. A fifth of the cost of ``SIVKey``.
package struct BlockKey: ~Copyable {
    private let forward, backward: AESContext

    /// Makes a key of its own from one for ``SIVKey``, so that neither says anything of the other.
    package init(derivedFrom key: Span<UInt8>) throws(CryptoError) {
        guard key.count == SIVKey.byteCount else {
            throw CryptoError(.wrongLength, "A key for AES-128-SIV has \(SIVKey.byteCount) bytes, not \(key.count).")
        }
        let derived = try BlockCode(key.extracting(0..<16)).code(of: Array("sippushd block key".utf8).span).bytes
        let forward = try AESContext(derived.span)
        let backward = try AESContext(derived.span, decrypts: true)
        self.forward = forward
        self.backward = backward
    }

    package func sealed(_ high: UInt64, _ low: UInt64) -> (high: UInt64, low: UInt64) {
        let block = forward.encrypted(Block(high: high, low: low))
        return (block.high, block.low)
    }

    package func opened(_ high: UInt64, _ low: UInt64) -> (high: UInt64, low: UInt64) {
        let block = backward.encrypted(Block(high: high, low: low))
        return (block.high, block.low)
    }
}

/// The code of RFC 4493 (AES-CMAC) for messages of any length.
private struct BlockCode: ~Copyable {
    private let cipher: AESContext
    /// Added to a last block that is whole, and to one that was filled up (section 2.3).
    private let whole, filled: Block

    init(_ key: Span<UInt8>) throws(CryptoError) {
        let cipher = try AESContext(key)
        whole = cipher.encrypted(Block(high: 0, low: 0)).doubled
        filled = whole.doubled
        self.cipher = cipher
    }

    /// The code of the bytes, to whose last sixteen, of which there must be so many then, the addend was added (`xorend`
    /// of RFC 5297 section 2.1).
    func code(of bytes: Span<UInt8>, addingToEnd addend: Block? = nil) -> Block {
        let count = bytes.count
        var state = Block(high: 0, low: 0)
        var index = 0
        while true {
            let rest = count - index
            let next = bytes.extracting(index..<min(index + 16, count))
            var block = rest >= 16 ? Block(next) : Block(padding: next)
            // The addend's bytes lie over the last two blocks, unless the bytes are whole blocks.
            if let addend { block = block ^ addend.moved(by: rest - 16) }
            if rest <= 16 {
                return cipher.encrypted(state ^ block ^ (rest == 16 ? whole : filled))
            }
            state = cipher.encrypted(state ^ block)
            index += 16
        }
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
        var words = (block.high.bigEndian, block.low.bigEndian)
        unsafe withUnsafeMutableBytes(of: &words) { unsafe encrypt($0) }
        return Block(high: UInt64(bigEndian: words.0), low: UInt64(bigEndian: words.1))
    }

    /// The same of some blocks in place.
    func encrypt(_ blocks: UnsafeMutableRawBufferPointer) {
        guard let place = unsafe blocks.bindMemory(to: UInt8.self).baseAddress else { return }
        var written: Int32 = 0
        let isDone = unsafe EVP_CipherUpdate(raw, place, &written, place, Int32(blocks.count)) == 1
        precondition(isDone && Int(written) == blocks.count, "a keyed cipher takes any block")
    }
}

/// Sixteen bytes as a number of 128 bits, most significant first.
private struct Block {
    let high: UInt64
    let low: UInt64
}

extension Block {
    /// The first sixteen bytes.
    init(_ bytes: Span<UInt8>) {
        high = Self.number(bytes, 0)
        low = Self.number(bytes, 8)
    }

    /// Fewer than sixteen bytes, followed by a one bit and zeros (RFC 5297 section 2.1).
    init(padding bytes: Span<UInt8>) {
        self.init(high: Self.padded(bytes, from: 0), low: Self.padded(bytes, from: 8))
    }

    private static func padded(_ bytes: Span<UInt8>, from start: Int) -> UInt64 {
        guard start + 8 > bytes.count else { return number(bytes, start) }
        guard start <= bytes.count else { return 0 }
        var word: UInt64 = 0
        for index in start..<bytes.count { word = word << 8 | UInt64(bytes[index]) }
        return (word << 8 | 0x80) << UInt64(8 * (start + 7 - bytes.count))
    }

    private static func number(_ bytes: Span<UInt8>, _ start: Int) -> UInt64 {
        unsafe UInt64(bigEndian: bytes.bytes.unsafeLoadUnaligned(fromByteOffset: start, as: UInt64.self))
    }

    /// The number doubled in the field of 2 to the 128 elements (RFC 5297 section 2.3).
    var doubled: Block {
        let carry: UInt64 = high >> 63 == 1 ? 0x87 : 0
        return Block(high: high << 1 | low >> 63, low: low << 1 ^ carry)
    }

    static func ^ (left: Block, right: Block) -> Block {
        Block(high: left.high ^ right.high, low: left.low ^ right.low)
    }

    /// The number after it, of those with a zero as the highest bit of the lower half, which counters have.
    var next: Block { Block(high: high, low: low &+ 1) }

    /// Moved by so many bytes towards the end; by a negative number of them towards the begin. What leaves is lost.
    func moved(by count: Int) -> Block {
        guard abs(count) < 16 else { return Block(high: 0, low: 0) }
        guard count < 0 else { return count == 0 ? self : Block(number >> UInt128(count * 8)) }
        return Block(number << UInt128(-count * 8))
    }

    private init(_ number: UInt128) {
        self.init(high: UInt64(truncatingIfNeeded: number >> 64), low: UInt64(truncatingIfNeeded: number))
    }

    private var number: UInt128 { UInt128(high) << 64 | UInt128(low) }

    /// Compares in the same time wherever the difference is.
    func differs(from other: Block) -> Bool { (high ^ other.high) | (low ^ other.low) != 0 }

    var bytes: InlineArray<16, UInt8> {
        InlineArray { index in
            UInt8(truncatingIfNeeded: (index < 8 ? high : low) >> UInt64(56 - index % 8 * 8))
        }
    }

    func append(to out: inout [UInt8]) {
        unsafe withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { unsafe out.append(contentsOf: $0) }
    }
}
