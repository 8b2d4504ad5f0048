import Bytes
import HEP
import Testing

@Suite("Secrets in traces")
struct SecretMaskTests {
    /// Each secret in the tests of `SecretMask` contains the text `S3CR3T`, so that a single search finds a leak.
    private static let secret = "S3CR3T"

    private func masked(_ lines: [String], body: String = "", keepsBodies: Bool = false) throws -> String {
        let text = lines.joined(separator: "\r\n") + "\r\n\r\n" + body
        return try maskedText(text, keepsBodies: keepsBodies)
    }

    private func maskedText(_ text: String, keepsBodies: Bool = false) throws -> String {
        var bytes = Array(text.utf8)
        let read = SIPOutline(bytes.span)
        let outline = try #require(read)
        SecretMask(keepsBodies: keepsBodies).apply(to: &bytes, outline)
        #expect(bytes.count == text.utf8.count, "the length stays")
        return String(decoding: bytes, as: UTF8.self)
    }

    private let invite = [
        "INVITE sip:bob@example.net SIP/2.0", "Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport",
        "From: \"Alice; the one\" <sip:alice@example.net>;tag=1", "To: <sip:bob@example.net>", "Call-ID: c1@pbx",
        "CSeq: 1 INVITE", "Contact: <sip:alice@192.0.2.1:5060;transport=udp>", "Max-Forwards: 70",
    ]

    @Test func `a message without secrets stays as it is`() throws {
        let body = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\nm=audio 4000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
        let lines = invite + ["Content-Type: application/sdp"]
        #expect(try masked(lines, body: body) == lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    @Test(arguments: [
        "Authorization: Digest username=\"bob\", realm=\"r\", nonce=\"S3CR3T\", response=\"S3CR3T\", cnonce=\"S3CR3T\"",
        "Proxy-Authorization: Bearer S3CR3T.S3CR3T.S3CR3T",
        "PROXY-AUTHORIZATION :Digest response=S3CR3T",
        "authorization:S3CR3T",
        "Authorization: S3CR3T S3CR3T",
        "Authorization: Digest username=\"bob\",\r\n response=\"S3CR3T\",\r\n\tcnonce=\"S3CR3T\"",
        "Authorization: Digest username=\"bob\",\nresponse=\"S3CR3T\"",
        "Authorization\r\n : Digest response=\"S3CR3T\"",
        "@Authorization: Digest response=\"S3CR3T\"",
        "WWW-Authenticate: Digest realm=\"r\", nonce=\"S3CR3T\", opaque=\"S3CR3T\", algorithm=MD5",
        "WWW-Authenticate: Digest realm=\"a\\\"b\", nonce=\"S3CR3T,S3CR3T\", qop=\"auth\"",
        "Proxy-Authenticate: Digest nonce = \"S3CR3T\"",
        "Authentication-Info: nextnonce=\"S3CR3T\", rspauth=\"S3CR3T\", qop=auth",
        "Contact: <sip:bob@192.0.2.2;pn-provider=fcm;pn-prid=abcdS3CR3TS3CR3T;pn-param=p/S3CR3TS3CR3Tlong>;expires=60",
        "Contact: <sip:bob@192.0.2.2>;pn-prid=\"S3CR3T;S3CR3T>S3CR3T\";expires=60",
        "Contact: <sip:bob@192.0.2.2;%70N-prid=S3CR3T>",
        "Contact: <sip:bob@192.0.2.2; pn-prid = S3CR3T>",
        "Contact: <sip:bob@192.0.2.2;\r\n pn-prid\r\n =\r\n S3CR3T>",
        "Contact: <sip:bob@192.0.2.2;pn-prid=S3CR3T:voip&S3CR3T:remote>",
        "Contact: <sip:bob@192.0.2.2;pn-tok=S3CR3T;pn-type=apple;app-id=x>",
        "Contact: sip:bob@192.0.2.2;pn-prid=https://push.example/S3CR3T?a=S3CR3T",
        "m: <sip:bob@192.0.2.2;pn-param=S3CR3T>",
        "Contact: <sip:bob:S3CR3T@192.0.2.2>",
        "Refer-To: <SIPS:bob:S3CR3T@192.0.2.2>", "Contact: <sip:bob:S3CR3T,S3CR3T@192.0.2.2>",
        "Contact: <sip:mysip:S3CR3T@192.0.2.2>", "X-Called: sip:a,sip:bob:S3CR3T@192.0.2.2",
        "Refer-To: <sip:bob@192.0.2.2?Proxy-Authorization=Digest%20S3CR3T&Subject=x>",
        "Route: <sip:192.0.2.2;lr;auth-token=S3CR3T>",
        "X-Auth-Token: S3CR3T", "X-API-Key: S3CR3T", "Cookie: S3CR3T", "X-Password: S3CR3T",
    ])
    func `no secret of the head is readable`(field: String) throws {
        let text = try masked(Array(invite.prefix(2)) + [field] + Array(invite.dropFirst(2)))
        #expect(!text.contains(Self.secret), "\(text)")
        // The mask leaves the fields before and after a secret readable.
        #expect(text.contains("branch=z9hG4bK1;rport\r\n") && text.contains("\r\nCall-ID: c1@pbx\r\n"), "\(text)")
    }

    /// If the masking took time that grows with the square of the text's length, this test would take hours.
    @Test(.timeLimit(.minutes(5))) func `a million bytes of URIs without a host are read once`() throws {
        let field = "X-Many: " + String(repeating: "sip:", count: 250_000)
        #expect(try masked(Array(invite.prefix(2)) + [field]).contains("sip:sip:"))
    }

    @Test func `what people look for stays readable beside the secrets`() throws {
        let text = try masked(
            invite + [
                "WWW-Authenticate: Digest realm=\"example.net\", nonce=\"S3CR3T\", algorithm=SHA-256, qop=\"auth\"",
                "Authorization: Digest username=\"S3CR3T\"",
                "Contact: <sip:b@192.0.2.2;pn-provider=apns;pn-prid=abcdefghS3CR3T00;pn-param=short>;expires=60",
            ])
        #expect(text.contains("realm=\"example.net\", nonce=xxxxxxxx, algorithm=SHA-256, qop=\"auth\""), "\(text)")
        #expect(text.contains("Authorization: Digest xxxxx"), "\(text)")
        // As in the log, the first four characters and the length of a masked token identify the token.
        #expect(text.contains(";pn-provider=apns;pn-prid=abcdxxxxxxxxxxxx;pn-param=xxxxx>;expires=60"), "\(text)")
    }

    @Test func `the Request-URI has no token`() throws {
        let text = try masked(["REGISTER sip:b:S3CR3T@h;pn-prid=S3CR3T SIP/2.0", "Call-ID: 1"])
        #expect(text.hasPrefix("REGISTER sip:b:xxxxxx@h;pn-prid=xxxxxx SIP/2.0\r\n"))
    }

    @Test func `bodies other than session descriptions are hidden`() throws {
        let message = ["MESSAGE sip:bob@example.net SIP/2.0", "CSeq: 1 MESSAGE"]
        #expect(!(try masked(message + ["Content-Type: text/plain"], body: "S3CR3T")).contains(Self.secret))
        // The mask treats the body of a MESSAGE as no session description, even if its text looks like one.
        #expect(!(try masked(message + ["Content-Type: application/sdp"], body: "s=S3CR3T")).contains(Self.secret))
        #expect(!(try masked(invite, body: "S3CR3T")).contains(Self.secret))
        #expect(!(try masked(invite + ["c: application/sdp-S3"], body: "s=S3CR3T")).contains(Self.secret))
        #expect(
            !(try masked(invite + ["c: application/sdp", "Content-Encoding: gzip"], body: "s=S3CR3T")).contains(
                Self.secret))
        #expect(
            !(try masked(invite + ["c: application/sdp", "c: text/plain"], body: "s=S3CR3T")).contains(Self.secret))
    }

    @Test func `a second message behind a session description is hidden`() throws {
        let text = try masked(
            invite + ["Content-Type: application/sdp"],
            body: "v=0\r\nREGISTER sip:h SIP/2.0\r\nAuthorization: Digest response=\"S3CR3T\"\r\n\r\nhello S3CR3T\r\n")
        #expect(!text.contains(Self.secret), "\(text)")
        #expect(text.contains("v=0\r\n"))
    }

    @Test func `keys of media are hidden, with and without bodies`() throws {
        let body =
            "v=0\r\nk=clear:S3CR3T\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:S3CR3T\r\na=ICE-pwd:S3CR3T\r\ns=call\r\n"
        for keepsBodies in [false, true] {
            let text = try masked(invite + ["c: Application/SDP; x=y"], body: body, keepsBodies: keepsBodies)
            #expect(!text.contains(Self.secret), "\(text)")
            #expect(text.contains("s=call"))
        }
    }

    @Test func `with bodies, texts are readable, but tokens and credentials in them are not`() throws {
        let text = try masked(
            ["MESSAGE sip:bob@example.net SIP/2.0", "Content-Type: text/plain"],
            body: "hello\r\nAuthorization: Digest S3CR3T\r\nsip:a@b;pn-prid=S3CR3T\r\n", keepsBodies: true)
        #expect(!text.contains(Self.secret), "\(text)")
        #expect(text.contains("hello"))
    }

    @Test(arguments: ["", "\r\n\r\n", "GET / HTTP/1.1\r\nAuthorization: Basic S3CR3T\r\n\r\n", "\u{0}\u{1}", "INVITE"])
    func `bytes that are no SIP message have no outline`(text: String) {
        let bytes = Array(text.utf8)
        let outline = SIPOutline(bytes.span)
        #expect(outline == nil)
    }

    @Test func `any bytes are masked without a trap`() {
        var number: UInt64 = 7
        let parts = [
            ":", ";", "=", "\"", "\\", "<", ">", "\r\n", "\n", " ", "pn-prid=", "Authorization", "sip:", "@", "a", "%7",
            "%70", "&", "?", "\r\n\r\n", "a=crypto:", "WWW-Authenticate:", ",", "Content-Type: application/sdp",
        ]
        for _ in 0..<20_000 {
            var text = "INVITE sip:b SIP/2.0\r\n"
            for _ in 0..<12 {
                number = number &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                text += parts[Int(number >> 33) % parts.count]
            }
            var bytes = Array(text.utf8)
            guard let outline = SIPOutline(bytes.span) else { continue }
            SecretMask(keepsBodies: number & 1 == 0).apply(to: &bytes, outline)
            #expect(bytes.count == text.utf8.count)
        }
    }
}
