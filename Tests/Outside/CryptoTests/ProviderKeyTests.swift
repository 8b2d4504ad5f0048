import Bytes
import Crypto
import TestSupport
import Testing

private func key(_ pem: String, _ algorithm: ProviderKey.Algorithm) throws(CryptoError) -> ProviderKey {
    try ProviderKey(.bytes(Array(pem.utf8)), for: algorithm)
}

private func complaint(about pem: String, _ algorithm: ProviderKey.Algorithm) -> CryptoError? {
    do throws(CryptoError) {
        _ = try key(pem, algorithm)
        return nil
    } catch {
        return error
    }
}

@Suite("Provider keys and their tokens")
struct ProviderKeyTests {
    private static let claims =
        ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    private static let es256Input = Array(("eyJhbGciOiJFUzI1NiJ9" + claims).utf8)

    @Test func `the ES256 signature of RFC 7515 is accepted and a changed one is not`() throws {
        let es256 = try key(TestKeys.rfc7515P256, .es256)
        let text = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
        var signature = try #require(Base64.url.decode(Array(text.utf8)))
        #expect(es256.isValid(signature, for: Self.es256Input))
        signature[40] ^= 1
        #expect(!es256.isValid(signature, for: Self.es256Input))
        #expect(!es256.isValid([], for: Self.es256Input))
    }

    @Test func `an ES256 signature has 64 bytes and verifies`() throws {
        let es256 = try key(TestKeys.rfc7515P256, .es256)
        let signature = try es256.signature(of: Self.es256Input)
        #expect(signature.count == 64)
        #expect(es256.isValid(signature, for: Self.es256Input))
        #expect(!es256.isValid(signature, for: Array("other".utf8)))
    }

    @Test func `r and s are padded on the left`() throws {
        let joined = try #require(ECDSASignature.joined([0x30, 0x07, 0x02, 0x01, 0x05, 0x02, 0x02, 0x00, 0x87]))
        let zeros = [UInt8](repeating: 0, count: 31)
        #expect(joined == zeros + [0x05] + zeros + [0x87])
        #expect(ECDSASignature.encoded(joined) == [0x30, 0x07, 0x02, 0x01, 0x05, 0x02, 0x02, 0x00, 0x87])
    }

    @Test func `an r of more than 32 bytes is no signature`() {
        let r = [UInt8](repeating: 1, count: 33)
        #expect(ECDSASignature.joined([0x30, 38, 0x02, 33] + r + [0x02, 0x01, 0x01]) == nil)
        #expect(ECDSASignature.joined([]) == nil)
    }

    @Test func `RS256 signs as another library does`() throws {
        let rs256 = try key(TestKeys.rsa2048, .rs256)
        let input = Array(("eyJhbGciOiJSUzI1NiJ9" + Self.claims).utf8)
        let signature = try rs256.signature(of: input)
        #expect(Base64.url.encode(signature) == Array(TestKeys.rs256Signature.utf8))
        #expect(rs256.isValid(signature, for: input))
    }

    @Test func `a token is three parts and the last signs the first two`() throws {
        let es256 = try key(TestKeys.rfc7515P256, .es256)
        let token = try es256.token(
            header: Array(#"{"alg":"ES256","kid":"ABC123DEFG"}"#.utf8),
            claims: Array(#"{"iss":"DEF123GHIJ","iat":1437179036}"#.utf8))
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
        try #require(parts.count == 3)
        #expect(parts[0] == Array("eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ".utf8))
        #expect(parts[1] == Array("eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNDM3MTc5MDM2fQ".utf8))
        let signature = try #require(Base64.url.decode(parts[2]))
        #expect(es256.isValid(signature, for: Array(token.prefix(parts[0].count + 1 + parts[1].count))))
    }

    @Test func `a key that does not suit is refused with a sentence`() {
        #expect(complaint(about: TestKeys.rsa2048, .es256)?.code == .unsuitableKey)
        #expect(complaint(about: TestKeys.rfc7515P256, .rs256)?.code == .unsuitableKey)
        #expect(
            complaint(about: TestKeys.p384, .es256)?.description
                == "PEM bytes: ES256 needs a key on the curve P-256, this one is on secp384r1.")
        #expect(
            complaint(about: TestKeys.rsa1024, .rs256)?.description
                == "PEM bytes: RS256 needs an RSA key of 2048 bits or more, this one has 1024.")
    }

    @Test func `a key that is invalid or needs a passphrase cannot be read`() {
        #expect(complaint(about: "", .es256)?.code == .unreadableKey)
        #expect(
            complaint(about: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", .es256)?.code
                == .unreadableKey)
        #expect(complaint(about: TestKeys.encrypted, .es256)?.code == .unreadableKey)
    }

    @Test(arguments: [
        TestKeys.sec1, TestKeys.sec1WithParameters, TestKeys.sec1Compressed, TestKeys.sec1WithoutPublicKey,
        TestKeys.sec1AsPKCS8,
    ])
    func `each form of a key has the same public point and can sign`(pem: String) throws {
        let es256 = try key(pem, .es256)
        let point = try es256.publicPoint()
        #expect(Hex.encode(point) == Array(TestKeys.sec1PublicPoint.utf8))
        let signature = try es256.signature(of: Self.es256Input)
        #expect(try P256PublicKey(point: point).isValid(signature, for: Self.es256Input))
        #expect(try !P256PublicKey(point: point).isValid(signature, for: []))
        #expect(try !P256PublicKey(point: P256KeyPair().publicKey).isValid(signature, for: Self.es256Input))
        #expect(try !P256PublicKey(point: point).isValid([], for: Self.es256Input))
    }

    @Test func `an RSA key has no point`() throws {
        let rs256 = try key(TestKeys.rsa2048, .rs256)
        #expect(throws: CryptoError.self) { try rs256.publicPoint() }
    }
}
