import Bytes
import ProxyRuntime
import Testing
import UpstreamRegistration

/// The contact tokens of a cluster, with the real encryption.
@Suite struct UpstreamSealTests {
    private func seal(_ secret: UInt8 = 7) throws -> TokenSeal {
        try UpstreamCode.seal { text in
            (0..<32).map { UInt8(truncatingIfNeeded: text.count &+ $0) ^ secret }
        }
    }

    private let bob = ByteString("bob")
    private let domain = ByteString("example.net")

    @Test func `equal users get equal tokens of digits, and each node reads them in any case`() throws {
        let (a, b) = (try seal(), try seal())
        let token = a.seal(bob, domain)
        #expect(token == b.seal(bob, domain))
        #expect(token.array.allSatisfy { $0.hexValue != nil } && !token.string.contains("626f62"))
        for text in [token, ByteString(token.string.uppercased())] {
            let read = b.open(text)
            #expect(read?.name == bob && read?.domain == domain)
        }
        #expect(a.seal(bob, ByteString("example.org")) != token)
    }

    @Test func `names with any bytes come back`() throws {
        let seal = try seal()
        for bytes in [[], [0], [0, 0, 65], Array(0...255), [255, 254]] as [[UInt8]] {
            let read = seal.open(seal.seal(ByteString(bytes), domain))
            #expect(read?.name.array == bytes.map { $0 } && read?.domain == domain)
        }
    }

    @Test func `no other text is a token`() throws {
        let (seal, stranger) = (try seal(), try seal(8))
        let token = seal.seal(bob, domain).string
        #expect(stranger.open(ByteString(token)) == nil)
        for place in token.indices {
            var changed = token
            changed.replaceSubrange(place...place, with: token[place] == "0" ? "1" : "0")
            #expect(seal.open(ByteString(changed)) == nil)
        }
        for length in 0..<token.count { #expect(seal.open(ByteString(String(token.prefix(length)))) == nil) }
        #expect(seal.open(ByteString(String(repeating: "0", count: 100_000))) == nil)
    }
}
