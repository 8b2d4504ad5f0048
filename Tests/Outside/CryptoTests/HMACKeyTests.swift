import Bytes
import Crypto
import Testing

@Suite("HMAC-SHA256 (RFC 4231)")
struct HMACKeyTests {
    @Test(arguments: [
        (
            [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            [UInt8](repeating: 0xaa, count: 20), [UInt8](repeating: 0xdd, count: 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        ),
        (
            Array(1...25), [UInt8](repeating: 0xcd, count: 50),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
        ),
        (
            [UInt8](repeating: 0xaa, count: 131),
            Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
    ])
    func `the published codes are computed, also by a key that is used again`(
        key: [UInt8], message: [UInt8], expected: String
    ) throws {
        var hmac = try HMACKey(key.span)
        for _ in 0..<2 {
            let code = Hex.encode(hmac.code(for: message).span)
            #expect(code == Array(expected.utf8))
        }
    }

    @Test func `an empty key and an empty message have a code`() throws {
        var hmac = try HMACKey([UInt8]().span)
        let expected = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"
        let code = Hex.encode(hmac.code(for: []).span)
        #expect(code == Array(expected.utf8))
    }
}

@Suite("Comparing and random bytes")
struct SecretBytesTests {
    @Test func `equal bytes are equal and one bit makes a difference`() {
        #expect(equalInConstantTime(Array("secret".utf8), Array("secret".utf8)))
        #expect(equalInConstantTime([], []))
        #expect(!equalInConstantTime(Array("secret".utf8), Array("secres".utf8)))
        #expect(!equalInConstantTime(Array("secret".utf8), Array("secre".utf8)))
    }

    @Test func `random bytes have the length asked for and do not repeat`() throws {
        #expect(try RandomBytes.make(0).isEmpty)
        let first = try RandomBytes.make(16)
        #expect(first.count == 16)
        #expect(try RandomBytes.make(16) != first)
    }
}
