import Bytes
import SIPGrammar
import Testing

@Suite("Digest challenges")
struct DigestChallengeTests {
    private func read(_ text: String) -> [DigestChallenge] { DigestChallenge.all(in: ByteString(text)) }

    @Test func `a challenge has its parts without quotes`() throws {
        let text =
            "Digest realm=\"asterisk\",nonce=\"1/a==\",opaque=\"o\\\"p\",algorithm=MD5,qop=\"auth,auth-int\", stale = TRUE"
        let challenge = try #require(read(text).first)
        #expect(challenge.realm == "asterisk")
        #expect(challenge.nonce == "1/a==")
        #expect(challenge.opaque?.string == "o\"p")
        #expect(challenge.algorithm?.string == "MD5")
        #expect(challenge.offersAuth)
        #expect(challenge.isStale)
    }

    @Test func `several challenges may share a row, and other schemes are left out`() {
        let row =
            "Negotiate abc==, digest realm=\"a\", nonce=\"1\", Basic realm=\"b\", Bearer realm=\"c\", scope=\"x\", Digest nonce=\"2\" , algorithm=SHA-256, realm=\"d, Digest realm=e\""
        let found = read(row)
        #expect(found.map(\.realm.string) == ["a", "d, Digest realm=e"])
        #expect(found.map(\.nonce.string) == ["1", "2"])
    }

    @Test(arguments: ["auth-int", "author", "", "x,y", "au th"])
    func `only the word auth offers auth`(list: String) {
        #expect(read("Digest realm=\"a\", nonce=\"1\", qop=\"\(list)\"").first?.offersAuth == false)
    }

    @Test(arguments: [
        "", "Digest", "Digest realm=\"a\"", "Digest nonce=\"a\"", "Digest realm=\"a\", nonce=\"\"", "Digest realm=\"a",
        "Digest realm=\"a\\", "=,=,=", ",,,", "Digest =x, realm", "realm=\"a\", nonce=\"b\"", "Digest\u{0}realm=\"a\"",
        "Digest realm=\"a\", nonce=\"\(String(repeating: "n", count: 2000))\"", "\"Digest realm=\\\"a\\\"\"",
    ])
    func `what is no challenge gives none`(text: String) { #expect(read(text).isEmpty) }

    @Test func `a row cannot give more than eight challenges`() {
        let row = (0..<100).map { "Digest realm=\"r\($0)\", nonce=\"n\"" }.joined(separator: ", ")
        #expect(read(row).count == 8)
    }

    @Test func `credentials are written so that a reader finds the same values`() throws {
        let credentials = DigestCredentials(
            username: ByteString("b\"o\\b\r\nX: y"), realm: ByteString("r"), nonce: ByteString("n\"1"),
            uri: ByteString("sip:a"), response: ByteString("0a"), algorithm: ByteString("SHA-256"),
            qop: ByteString("auth"), nonceCount: ByteString("00000001"), cnonce: ByteString("c"))
        let text = ByteString(capacity: 64) { $0.append(credentials, opaque: ByteString("q")) }.string
        #expect(
            text
                == "Digest username=\"b\\\"o\\\\b  X: y\", realm=\"r\", nonce=\"n\\\"1\", uri=\"sip:a\", response=\"0a\", algorithm=SHA-256, opaque=\"q\", qop=auth, nc=00000001, cnonce=\"c\""
        )
        // Credentials have the same syntax as challenges, so the reader of challenges must read the values back.
        let challenge = try #require(DigestChallenge.all(in: ByteString(text)).first)
        #expect(challenge.nonce == credentials.nonce)
        #expect(challenge.opaque?.string == "q")
    }
}
