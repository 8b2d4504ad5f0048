import Bytes
import Crypto
import Testing

private func base64(_ text: String) throws -> [UInt8] { try #require(Base64.url.decode(Array(text.utf8))) }

private func code(_ body: () throws(CryptoError) -> Void) -> CryptoError.Code? {
    do throws(CryptoError) {
        try body()
        return nil
    } catch {
        return error.code
    }
}

/// The example of RFC 8291 section 5 and appendix A.
private enum Vector {
    static let plaintext = Array("When I grow up, I want to be a watermelon".utf8)
    static let authSecret = "BTBZMqHH6r4Tts7J_aSIgg"
    static let userAgent = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    static let userAgentPrivate = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
    static let sender = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
    static let senderPrivate = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
    static let salt = "DGv6ra1nlYgDCS1FRnbzlw"
    static let body =
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
        + "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
}

@Suite("Web push encryption (RFC 8291)")
struct WebPushEncryptionTests {
    @Test func `the body equals the RFC's byte for byte`() throws {
        let sender = try P256KeyPair(privateKey: base64(Vector.senderPrivate))
        #expect(sender.publicKey == (try base64(Vector.sender)))
        let body = try WebPushEncryption.encrypt(
            Vector.plaintext, for: base64(Vector.userAgent), authSecret: base64(Vector.authSecret), from: sender,
            salt: base64(Vector.salt))
        #expect(body.count == 144)
        #expect(body == (try base64(Vector.body)))
    }

    @Test func `its receiver reads it`() throws {
        let receiver = try P256KeyPair(privateKey: base64(Vector.userAgentPrivate))
        #expect(receiver.publicKey == (try base64(Vector.userAgent)))
        let text = try WebPushEncryption.decrypt(
            base64(Vector.body), with: receiver, authSecret: base64(Vector.authSecret))
        #expect(text == Vector.plaintext)
    }

    @Test(arguments: [0, 1, 15, 16, 17, 3993])
    func `an encrypted message can be decrypted`(count: Int) throws {
        let receiver = try P256KeyPair()
        let secret = try RandomBytes.make(16)
        // The receiver of a web push must not take zeros at the end of the plaintext for padding.
        let plaintext = [UInt8](repeating: 0, count: count)
        let body = try WebPushEncryption.encrypt(plaintext, for: receiver.publicKey, authSecret: secret)
        #expect(body.count == 86 + count + 17)
        #expect(try WebPushEncryption.decrypt(body, with: receiver, authSecret: secret) == plaintext)
    }

    @Test func `each message has a key and a salt of its own`() throws {
        let userAgent = try base64(Vector.userAgent)
        let secret = try base64(Vector.authSecret)
        let first = try WebPushEncryption.encrypt([1], for: userAgent, authSecret: secret)
        let second = try WebPushEncryption.encrypt([1], for: userAgent, authSecret: secret)
        #expect(first[..<16] != second[..<16] && first[21..<86] != second[21..<86])
    }

    @Test func `one byte too many is refused`() throws {
        let userAgent = try base64(Vector.userAgent)
        let secret = try base64(Vector.authSecret)
        let plaintext = [UInt8](repeating: 7, count: WebPushEncryption.plaintextLimit + 1)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.encrypt(plaintext, for: userAgent, authSecret: secret)
            } == .tooLong)
    }

    @Test(arguments: [0, 15, 17, 32])
    func `a secret has 16 bytes`(count: Int) throws {
        let userAgent = try base64(Vector.userAgent)
        let receiver = try P256KeyPair()
        let body = try base64(Vector.body)
        let secret = [UInt8](repeating: 1, count: count)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.encrypt([], for: userAgent, authSecret: secret)
            } == .wrongLength)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.decrypt(body, with: receiver, authSecret: secret)
            } == .wrongLength)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.encrypt(
                    [], for: userAgent, authSecret: [UInt8](repeating: 1, count: 16), from: receiver, salt: secret)
            } == .wrongLength)
    }

    /// Invalid public keys: points that are too short, too long, at infinity, compressed, hybrid, off the curve or
    /// beyond the field.
    private static let badPoints: [[UInt8]] = {
        guard let good = Base64.url.decode(Array(Vector.userAgent.utf8)) else { return [] }
        var offCurve = good
        offCurve[64] ^= 1
        return [
            [], [0], [4], Array(good.dropLast()), good + [0], [2] + good[1..<33], [2] + good.dropFirst(),
            [6] + good.dropFirst(), [0] + good.dropFirst(), offCurve, [4] + [UInt8](repeating: 0, count: 64),
            [4] + [UInt8](repeating: 255, count: 64),
        ]
    }()

    @Test(arguments: 0..<12)
    func `a key that is no point of the curve is refused`(index: Int) throws {
        let point = try #require(index < Self.badPoints.count ? Self.badPoints[index] : nil)
        let secret = try base64(Vector.authSecret)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.encrypt([1], for: point, authSecret: secret)
            } == .unsuitableKey)
    }

    @Test(arguments: [
        "", "00", "0000000000000000000000000000000000000000000000000000000000000000",
        "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ])
    func `a private key is within the order of the curve`(hex: String) throws {
        let bytes = try #require(Hex.decode(Array(hex.utf8)))
        #expect(code { () throws(CryptoError) in _ = try P256KeyPair(privateKey: bytes) } == .unsuitableKey)
    }

    @Test func `no byte of a body can be changed or left out`() throws {
        let receiver = try P256KeyPair(privateKey: base64(Vector.userAgentPrivate))
        let secret = try base64(Vector.authSecret)
        let body = try base64(Vector.body)
        for index in body.indices {
            var changed = body
            changed[index] ^= 1
            let changedCode = code { () throws(CryptoError) in
                _ = try WebPushEncryption.decrypt(changed, with: receiver, authSecret: secret)
            }
            // A changed record size (bytes 16 to 19) has no effect if it is larger than the body.
            #expect(changedCode == .undecryptable || (16..<20).contains(index), "byte \(index)")
            let cut = Array(body[..<index])
            #expect(
                code { () throws(CryptoError) in
                    _ = try WebPushEncryption.decrypt(cut, with: receiver, authSecret: secret)
                } == .undecryptable, "length \(index)")
        }
    }

    @Test func `another receiver cannot read it`() throws {
        let body = try base64(Vector.body)
        let secret = try base64(Vector.authSecret)
        let other = try P256KeyPair()
        let receiver = try P256KeyPair(privateKey: base64(Vector.userAgentPrivate))
        let otherSecret = [UInt8](repeating: 1, count: 16)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.decrypt(body, with: other, authSecret: secret)
            } == .undecryptable)
        #expect(
            code { () throws(CryptoError) in
                _ = try WebPushEncryption.decrypt(body, with: receiver, authSecret: otherSecret)
            } == .undecryptable)
    }
}
