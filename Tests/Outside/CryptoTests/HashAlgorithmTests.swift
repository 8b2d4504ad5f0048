import Crypto
import Testing

/// Computes the digest response of RFC 7616 section 3.4.1 with hashes only.
private func response(
    _ algorithm: HashAlgorithm, user: String, realm: String, password: String, method: String, uri: String,
    nonce: String, cnonce: String
) -> String {
    func hash(_ text: String) -> String { String(decoding: algorithm.hexDigest(of: Array(text.utf8)), as: UTF8.self) }
    let secret = hash("\(user):\(realm):\(password)")
    return hash("\(secret):\(nonce):00000001:\(cnonce):auth:\(hash("\(method):\(uri)"))")
}

@Suite("Digests")
struct HashAlgorithmTests {
    @Test(arguments: [
        (HashAlgorithm.md5, "d41d8cd98f00b204e9800998ecf8427e"),
        (.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (.sha512_256, "c672b8d1ef56ed28ab87c3622c5114069bdd3ad7b8f9737498d0c01ecef0967a"),
    ])
    func `the digest of an empty input is the published one`(algorithm: HashAlgorithm, expected: String) {
        #expect(algorithm.hexDigest(of: []) == Array(expected.utf8))
        #expect(algorithm.digest(of: []).count * 2 == expected.utf8.count)
    }

    @Test(arguments: [
        (HashAlgorithm.md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (.sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ])
    func `the example of RFC 7616 is computed`(algorithm: HashAlgorithm, expected: String) {
        let made = response(
            algorithm, user: "Mufasa", realm: "http-auth@example.org", password: "Circle of Life", method: "GET",
            uri: "/dir/index.html", nonce: "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")
        #expect(made == expected)
    }

    @Test(arguments: [
        (HashAlgorithm.md5, "b50bfb5aa0625225d558a2b7899c0558"),
        (.sha256, "187afa7788f7e1aa144ab74e549a6372c9344d9d1d84031b7832084ed3e7f291"),
        (.sha512_256, "63f84df0d06dd299469fb38b83d8192b96fb3ce9bc18a24b9eb7bd182004a64c"),
    ])
    func `a REGISTER is answered as other implementations answer it`(algorithm: HashAlgorithm, expected: String) {
        let made = response(
            algorithm, user: "alice", realm: "pbx.example.net", password: "s3cret", method: "REGISTER",
            uri: "sip:pbx.example.net", nonce: "nonce-1", cnonce: "cn1")
        #expect(made == expected)
    }

    @Test(arguments: HashAlgorithm.allCases)
    func `a context gives the same digest in pieces, and when it is used again`(algorithm: HashAlgorithm) {
        var context = HashContext(algorithm)
        for _ in 0..<3 {
            context.update(Array("user".utf8).span)
            context.update(Array(":realm".utf8).span)
            let made = context.finishHex()
            #expect(made == algorithm.hexDigest(of: Array("user:realm".utf8)))
        }
    }
}
