import COpenSSL

/// A key for AES-128-SIV (RFC 5297): encrypts and authenticates without a nonce, so that the same text with the same
/// associated data always becomes the same bytes and nothing has to be counted or stored.
///
/// OpenSSL has this mode, too, but its context serves one message and then needs the key again. Here the mode is made
/// of OpenSSL's CMAC and counter mode, which keep their keys, so that a message needs neither a set-up nor an
/// allocation.
@safe
package struct SIVKey: ~Copyable {
    package static let byteCount = 32
    /// By how many bytes a sealed text is longer.
    package static let overhead = 16

    private let mac: OpaquePointer
    private let cipher: OpaquePointer
    /// CMAC of sixteen zeros, with which each message begins.
    private let start: Block
    /// What has been associated with the next message.
    private var chain: Block

    /// - Throws: ``CryptoError/Code/wrongLength`` unless the key has 32 bytes: the halves for the CMAC and for the cipher.
    package init(_ key: Span<UInt8>) throws(CryptoError) {
        guard key.count == Self.byteCount else {
            throw CryptoError(.wrongLength, "A key for AES-128-SIV has \(Self.byteCount) bytes, not \(key.count).")
        }
        guard let algorithm = unsafe FetchedMAC.cmac.pointer, let mac = unsafe EVP_MAC_CTX_new(algorithm) else {
            throw .library("CMAC")
        }
        guard let cipher = unsafe EVP_CIPHER_CTX_new() else {
            unsafe EVP_MAC_CTX_free(mac)
            throw .library("AES-128-CTR")
        }
        let isReady = unsafe key.withUnsafeBufferPointer { bytes in
            guard let first = bytes.baseAddress else { return false }
            return unsafe cmac_set_key_aes128(mac, first) == 1
                && EVP_EncryptInit_ex2(cipher, EVP_aes_128_ctr(), first + 16, nil, nil) == 1
        }
        guard isReady else {
            unsafe EVP_MAC_CTX_free(mac)
            unsafe EVP_CIPHER_CTX_free(cipher)
            throw .library("AES-128-SIV")
        }
        unsafe self.mac = mac
        unsafe self.cipher = cipher
        start = unsafe Self.code(mac, [UInt8](repeating: 0, count: 16).span, nil)
        chain = start
    }

    deinit {
        unsafe EVP_MAC_CTX_free(mac)
        unsafe EVP_CIPHER_CTX_free(cipher)
    }

    /// Adds a piece of associated data to the next message, which opens only with the same pieces in the same order.
    package mutating func associate(_ data: Span<UInt8>) {
        chain = unsafe chain.doubled ^ Self.code(mac, data, nil)
    }

    /// Appends the sealed text to `out`.
    package mutating func seal(_ plain: Span<UInt8>, into out: inout [UInt8]) {
        let tag = tag(of: plain)
        tag.append(to: &out)
        let begin = out.count
        for index in plain.indices { out.append(plain[index]) }
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
        for index in Self.overhead..<sealed.count { plain.append(sealed[index]) }
        apply(given, to: &plain, from: begin)
        guard tag(of: plain.span.extracting(begin...)).differs(from: given) else { return true }
        plain.removeLast(plain.count - begin)
        return false
    }

    /// S2V of RFC 5297 section 2.4: the synthetic initialisation vector. The next message begins anew.
    private mutating func tag(of plain: Span<UInt8>) -> Block {
        defer { chain = start }
        guard plain.count < 16 else { return unsafe Self.code(mac, plain, chain) }
        return unsafe Self.code(mac, (chain.doubled ^ Block(padding: plain)).bytes.span, nil)
    }

    /// Counter mode, from the vector without the two bits that let implementations count in 32 bits (section 2.5).
    private func apply(_ tag: Block, to bytes: inout [UInt8], from begin: Int) {
        var counter = (tag.high.bigEndian, (tag.low & 0x7fff_ffff_7fff_ffff).bigEndian)
        let count = bytes.count - begin
        let isDone = unsafe withUnsafeBytes(of: &counter) { vector in
            guard let vector = unsafe vector.bindMemory(to: UInt8.self).baseAddress else { return false }
            return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
                guard count > 0, let place = unsafe buffer.baseAddress.map({ unsafe $0 + begin }) else { return true }
                var written: Int32 = 0
                return unsafe EVP_EncryptInit_ex2(cipher, nil, nil, vector, nil) == 1
                    && EVP_EncryptUpdate(cipher, place, &written, place, Int32(clamping: count)) == 1
                    && Int(written) == count
            }
        }
        precondition(isDone, "a keyed cipher takes any bytes")
    }

    /// CMAC of the bytes, after `last`, if there is one, was added to the last sixteen of them.
    private static func code(_ mac: OpaquePointer, _ bytes: Span<UInt8>, _ last: Block?) -> Block {
        var code = (0 as UInt64, 0 as UInt64)
        var isDone = unsafe EVP_MAC_init(mac, nil, 0, nil) == 1
        var plain = bytes
        if let last {
            plain = bytes.extracting(0..<(bytes.count - 16))
            let end = Block(bytes.extracting((bytes.count - 16)...)) ^ last
            isDone = unsafe isDone && update(mac, plain) && update(mac, end.bytes.span)
        } else {
            isDone = unsafe isDone && update(mac, plain)
        }
        var count = 0
        isDone =
            unsafe withUnsafeMutableBytes(of: &code) { out in
                unsafe EVP_MAC_final(mac, out.bindMemory(to: UInt8.self).baseAddress, &count, 16) == 1
            } && isDone
        precondition(isDone && count == 16, "a keyed CMAC takes any bytes")
        return Block(high: UInt64(bigEndian: code.0), low: UInt64(bigEndian: code.1))
    }

    private static func update(_ mac: OpaquePointer, _ bytes: Span<UInt8>) -> Bool {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe bytes.isEmpty || EVP_MAC_update(mac, bytes.baseAddress, bytes.count) == 1
        }
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
        var high: UInt64 = 0
        var low: UInt64 = 0
        for index in 0..<16 {
            let byte: UInt8 = index < bytes.count ? bytes[index] : index == bytes.count ? 0x80 : 0
            high = high << 8 | low >> 56
            low = low << 8 | UInt64(byte)
        }
        self.init(high: high, low: low)
    }

    private static func number(_ bytes: Span<UInt8>, _ start: Int) -> UInt64 {
        var number: UInt64 = 0
        for index in start..<start + 8 { number = number << 8 | UInt64(bytes[index]) }
        return number
    }

    /// The number doubled in the field of 2 to the 128 elements (RFC 5297 section 2.3).
    var doubled: Block {
        let carry: UInt64 = high >> 63 == 1 ? 0x87 : 0
        return Block(high: high << 1 | low >> 63, low: low << 1 ^ carry)
    }

    static func ^ (left: Block, right: Block) -> Block {
        Block(high: left.high ^ right.high, low: left.low ^ right.low)
    }

    /// Compares in the same time wherever the difference is.
    func differs(from other: Block) -> Bool { (high ^ other.high) | (low ^ other.low) != 0 }

    var bytes: InlineArray<16, UInt8> {
        InlineArray { index in
            UInt8(truncatingIfNeeded: (index < 8 ? high : low) >> UInt64(56 - index % 8 * 8))
        }
    }

    func append(to out: inout [UInt8]) {
        let bytes = bytes
        for index in bytes.indices { out.append(bytes[index]) }
    }
}
