import Bytes
import Crypto
import Testing

@Suite("AES-128-SIV")
struct SIVKeyTests {
    /// A class that wraps the key, so that `#expect` can call its methods.
    private final class Bench {
        private var key: SIVKey

        init(_ bytes: [UInt8]) throws { key = try SIVKey(bytes.span) }

        func seal(_ plain: [UInt8], _ associated: [[UInt8]] = [], behind start: [UInt8] = []) -> [UInt8] {
            for data in associated { key.associate(data.span) }
            var sealed = start
            key.seal(plain.span, into: &sealed)
            return sealed
        }

        /// Decrypts a message with the key, and expects that a failed decryption appends nothing to the output.
        ///
        /// - Returns: the plaintext; `nil` if the message does not open.
        func open(_ sealed: [UInt8], _ associated: [[UInt8]] = []) -> [UInt8]? {
            for data in associated { key.associate(data.span) }
            var plain: [UInt8] = [7]
            guard key.open(sealed.span, into: &plain) else {
                #expect(plain == [7])
                return nil
            }
            return Array(plain.dropFirst())
        }
    }

    private struct Vector {
        let key: [UInt8]
        let associated: [[UInt8]]
        let plain: [UInt8]
        let sealed: [UInt8]

        init(_ key: String, _ associated: [String], _ plain: String, _ sealed: String) throws {
            self.key = try Self.bytes(key)
            self.associated = try associated.map { try Self.bytes($0) }
            self.plain = try Self.bytes(plain)
            self.sealed = try Self.bytes(sealed)
        }

        private static func bytes(_ hex: String) throws -> [UInt8] { try #require(Hex.decode(Array(hex.utf8))) }
    }

    /// The test vectors of RFC 5297 appendix A.
    private static func vectors() throws -> [Vector] {
        [
            try Vector(
                "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                ["101112131415161718191a1b1c1d1e1f2021222324252627"], "112233445566778899aabbccddee",
                "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"),
            try Vector(
                "7f7e7d7c7b7a79787776757473727170404142434445464748494a4b4c4d4e4f",
                [
                    "00112233445566778899aabbccddeeffdeaddadadeaddadaffeeddccbbaa99887766554433221100",
                    "102030405060708090a0", "09f911029d74e35bd84156c5635688c0",
                ],
                "7468697320697320736f6d6520706c61696e7465787420746f20656e6372797074207573696e67205349562d414553",
                "7bdb6e3b432667eb06f4d14bff2fbd0fcb900f2fddbe404326601965c889bf17dba77ceb094fa663b7a3f748ba8af829ea64ad544a272e9c485b62a3fd5c0d"
            ),
        ]
    }

    @Test func `the vectors of RFC 5297, twice with one key`() throws {
        for vector in try Self.vectors() {
            let bench = try Bench(vector.key)
            for _ in 0..<2 {
                #expect(bench.seal(vector.plain, vector.associated) == vector.sealed)
                #expect(bench.open(vector.sealed, vector.associated) == vector.plain)
            }
        }
    }

    @Test func `texts of any length are opened, and changed ones are not`() throws {
        let bench = try Bench(RandomBytes.make(SIVKey.byteCount))
        let data: [[UInt8]] = [[1, 2, 3]]
        for length in 0...40 {
            let text = [UInt8](repeating: 0x5a, count: length)
            let sealed = bench.seal(text, data)
            #expect(sealed.count == SIVKey.overhead + length)
            #expect(bench.seal(text, data, behind: [1]) == [1] + sealed)
            for index in sealed.indices {
                var changed = sealed
                changed[index] ^= 1
                #expect(bench.open(changed, data) == nil)
            }
            for other: [[UInt8]] in [[], [[1, 2]], [[1, 2, 3], []], [[1, 2], [3]]] {
                #expect(bench.open(sealed, other) == nil)
            }
            #expect(bench.open(sealed, data) == text)
        }
    }

    @Test func `a text that is too short is not opened, and appends nothing`() throws {
        let bench = try Bench([UInt8](repeating: 3, count: 32))
        let first = bench.seal([1])
        #expect(bench.open([1, 2, 3], [[9]]) == nil)
        #expect(bench.seal([1]) == first)
        #expect(throws: CryptoError.self) { _ = try Bench([UInt8](repeating: 3, count: 16)) }
    }
}

@Suite("Sealed texts")
struct TextSealerTests {
    private let call = ByteString("call")
    private let tag = ByteString("tag")

    @Test func `a text opens only with the data that it is bound to`() throws {
        let sealer = TextSealer()
        try sealer.use(RandomBytes.make(32), number: 1)
        let text = ByteString(sealer.seal([1, 2, 3], with: call, tag))
        #expect(sealer.open(text, with: call, tag)?.plain == [1, 2, 3])
        #expect(sealer.open(text, with: tag, call) == nil)
        #expect(sealer.open(text, with: ByteString("cal"), ByteString("ltag")) == nil)
        #expect(sealer.open(text[0..<text.count - 1], with: call, tag) == nil)
        for odd in ["", "A", "bob", String(repeating: "A", count: 241), "!!!!!!!!!!!!!!!!!!!!!!!!"] {
            #expect(sealer.open(ByteString(odd), with: call, tag) == nil)
        }
        for character in text.array {
            #expect(character.isTokenOfUserPart, "needs no escape in a URI")
        }
    }

    @Test func `an older key opens its own texts until it is forgotten`() throws {
        let sealer = TextSealer()
        try sealer.use(RandomBytes.make(32), number: 255)
        let old = ByteString(sealer.seal([9], with: call, tag))
        try sealer.use(RandomBytes.make(32), number: 0)
        let new = ByteString(sealer.seal([9], with: call, tag))
        #expect(old != new)
        #expect(sealer.open(old, with: call, tag)?.digest.leadingZeroBitCount == 0)
        #expect(sealer.open(old, with: call, tag).map { $0.digest >> 56 } == 255)
        #expect(sealer.open(new, with: call, tag).map { $0.digest >> 56 } == 0)
        sealer.forget(255)
        #expect(sealer.open(old, with: call, tag) == nil)
        #expect(sealer.open(new, with: call, tag) != nil)
    }
}

@Suite("Sealed blocks")
struct BlockKeyTests {
    private func seal(_ high: UInt64, _ low: UInt64, _ sealer: TextSealer) -> [UInt8] {
        ByteString(copying: sealer.seal(high, low).span).array
    }

    @Test func `a block opens only with its key, and looks random`() throws {
        let sealer = TextSealer()
        try sealer.use(RandomBytes.make(32), number: 1)
        let sealed = seal(7, 9, sealer)
        #expect(sealed.count == 23 && sealed == seal(7, 9, sealer) && sealed != seal(7, 8, sealer))
        #expect(sealer.openBlock(ByteString(sealed)).map { [$0.high, $0.low] } == [7, 9])
        // After the sealer has got key 2, key 1 still decrypts the text that key 1 has encrypted.
        try sealer.use(RandomBytes.make(32), number: 2)
        #expect(sealer.openBlock(ByteString(sealed)).map { [$0.high, $0.low] } == [7, 9])
        #expect(seal(7, 9, sealer) != sealed)
        // After a new key with the number 1, the sealer cannot decrypt a text that the old key 1 has encrypted.
        try sealer.use(RandomBytes.make(32), number: 1)
        #expect(sealer.openBlock(ByteString(sealed)).map { [$0.high, $0.low] } != [7, 9])
        sealer.forget(1)
        #expect(sealer.openBlock(ByteString(sealed)) == nil)
    }

    @Test func `a change of one letter changes the whole block`() throws {
        let sealer = TextSealer()
        try sealer.use(RandomBytes.make(32), number: 1)
        let sealed = seal(0x1122_3344_5566_7788, 0x99aa_bbcc_6772_7575, sealer)
        for place in sealed.indices.dropFirst(2).dropLast() {
            var changed = sealed
            changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            guard let (high, low) = sealer.openBlock(ByteString(changed)) else { continue }
            #expect(high != 0x1122_3344_5566_7788 && UInt32(truncatingIfNeeded: low) != 0x6772_7575)
        }
    }

    @Test(arguments: [
        "", "A", "AAAAAAAAAAAAAAAAAAAAAAA=", "AQAAAAAAAAAAAAAAAAAAAA", "%%%", String(repeating: "A", count: 400),
    ])
    func `text of another form is not opened`(text: String) throws {
        let sealer = TextSealer()
        try sealer.use(RandomBytes.make(32), number: 1)
        #expect(sealer.openBlock(ByteString(text)) == nil)
    }
}

extension UInt8 {
    fileprivate var isTokenOfUserPart: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
