import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport
import Testing

/// Tests which identities a phone may claim, and which of them the proxy forwards (T9.5 to T9.8).
@Suite("Identity of phones (T9.5 to T9.8)")
struct IdentityTests {
    private static let claims = [
        "P-Asserted-Identity: <sip:boss@example.net>", "p-asserted-identity : <sip:boss@example.net>",
        "P-Preferred-Identity: <sip:boss@example.net>", "Remote-Party-ID: <sip:boss@example.net>;party=calling",
        "DIVERSION: <sip:boss@example.net>", "History-Info:\r\n <sip:boss@example.net>;index=1",
        "P-Charging-Vector: icid-value=boss", "P-Access-Network-Info: boss", "X-Account : boss",
        "Route: <sip:boss@10.9.9.9;lr>",
    ]

    // MARK: T9.7

    @Test(arguments: ["INVITE", "MESSAGE", "SUBSCRIBE", "PUBLISH", "OPTIONS"])
    func `the PBX gets the proved identity, and no claim of the phone`(method: String) throws {
        let bench = EngineBench.authenticating()
        let out = bench.receiveProved(bench.phoneText(method, extra: Self.claims), as: "bob")
        let sent = try #require(sentRequest(out))
        let text = sent.frame.bytes.string
        #expect(!text.contains("boss"))
        #expect(sent.frame.values(of: .pAssertedIdentity).map(\.string) == ["<sip:bob@example.net>"])
        #expect(sent.frame.values(of: .route).isEmpty && sent.frame.values(of: .proxyAuthorization).isEmpty)
        #expect(text.contains("User-Agent: Phone 1\r\n"))
    }

    @Test func `an anonymous caller is asserted toward the PBX`() throws {
        let bench = EngineBench.authenticating()
        let request = bench.phoneText(from: "sip:anonymous@anonymous.invalid", extra: ["Privacy: id"])
        let sent = try #require(sentRequest(bench.receiveProved(request, as: "bob")))
        #expect(sent.frame.values(of: .pAssertedIdentity).map(\.string) == ["<sip:bob@example.net>"])
        #expect(sent.frame.values(of: .privacy).map(\.string) == ["id"])
    }

    @Test func `an anonymous caller of another domain is anonymous in P-Preferred-Identity`() throws {
        let bench = EngineBench.authenticating(users: TestDigest.users("bob", domain: "example.org")) {
            $0.domains = [ByteString("example.net"), ByteString("example.org")]
        }
        let request = bench.phoneText(
            from: "sip:anonymous@anonymous.invalid", extra: ["P-Preferred-Identity: \"B\" <sip:bob@example.org>"])
        let sent = try #require(sentRequest(bench.receiveProved(request, as: "bob")))
        #expect(sent.frame.values(of: .pAssertedIdentity).map(\.string) == ["<sip:bob@example.org>"])
        #expect(!sent.frame.contains(.pPreferredIdentity))
    }

    @Test func `phones do not get these fields either, even from other phones or in responses`() throws {
        let bench = EngineBench.authenticating { $0.upstream = nil }
        let eve = Endpoint(IPAddress(v4: 0xc000_0209), 40_009)
        let registered = bench.receiveProved(
            bench.registerText(user: "eve", token: nil, callID: "re", from: eve), as: "eve", from: eve)
        _ = bench.commitAll(in: registered)
        let call = bench.phoneText(to: "sip:eve@example.net", extra: Self.claims)
        let invite = try #require(sentRequest(bench.receiveProved(call, as: "bob")))
        #expect(!invite.frame.bytes.string.contains("boss") && !invite.frame.contains(.pAssertedIdentity))
        for status: Status in [180, 200] {
            let lying = SIPText.response(status, to: invite, tag: "e", contact: "sip:eve@\(eve)").replacing(
                "Call-ID:", with: Self.claims.dropLast().joined(separator: "\r\n") + "\r\nCall-ID:")
            let relayed = try #require(sentResponse(bench.receive(lying, from: eve)))
            #expect(relayed.status == status && !relayed.frame.bytes.string.contains("boss"))
        }
    }

    @Test func `the PBX's fields are forwarded, except for a caller who wants privacy`() throws {
        let bench = EngineBench.registered(token: nil)
        let rows = ["P-Asserted-Identity: <sip:boss@example.net>", "Diversion: <sip:d@example.net>", "X-Queue: 7"]
        let open = try #require(sentRequest(bench.invite(extra: rows)))
        for row in rows { #expect(open.frame.bytes.string.contains(row + "\r\n")) }
        let secret = try #require(
            sentRequest(bench.invite(callID: "call2", branch: "i2", extra: rows + ["Privacy: user;ID"])))
        #expect(!secret.frame.contains(.pAssertedIdentity))
    }

    @Test func `the PBX's answer asserts itself to a phone, unless it wants privacy`() throws {
        for isPrivate in [false, true] {
            let bench = EngineBench.authenticating()
            let invite = try #require(sentRequest(bench.receiveProved(bench.phoneText(), as: "bob")))
            let rows = "P-Asserted-Identity: <sip:200@example.net>\r\n\(isPrivate ? "Privacy: id\r\n" : "")Call-ID:"
            let answer = SIPText.response(180, to: invite, tag: "b").replacing("Call-ID:", with: rows)
            let relayed = try #require(sentResponse(bench.receive(answer, from: EngineBench.pbx)))
            #expect(relayed.frame.contains(.pAssertedIdentity) == !isPrivate)
        }
    }

    @Test func `the list is a setting`() throws {
        let bench = EngineBench.authenticating { $0.stripped = HeaderFilter(names: ["User-Agent"]) }
        let sent = try #require(sentRequest(bench.receiveProved(bench.phoneText(extra: ["X-Mine: 1"]), as: "bob")))
        #expect(sent.frame.bytes.string.contains("X-Mine: 1") && !sent.frame.contains(.userAgent))
    }

    // MARK: T9.6

    @Test(arguments: [
        "sip:eve@example.net", "sip:bob@elsewhere.org", "sip:BOB@example.net", "sip:bob@10.0.0.2", "tel:bob",
        "sip:example.net", "sip:anonymous@example.net", "sip:bob@anonymous.invalid.example.com",
    ])
    func `another From than the phone's own is refused`(from: String) throws {
        let bench = EngineBench.authenticating()
        let out = bench.receiveProved(bench.phoneText(from: from), as: "bob")
        #expect(story(out) == ["403 invite > phone"])
        #expect(sentRequest(out) == nil)
    }

    @Test(arguments: [
        "sip:bob@example.net", "sip:bob@EXAMPLE.net:5060;user=phone", "sip:b%6Fb@example.net", "sip:bob@10.0.0.1",
        "sips:bob@example.net",
    ])
    func `the phone's own field is removed in each notation`(from: String) throws {
        let bench = EngineBench.authenticating()
        let sent = sentRequest(bench.receiveProved(bench.phoneText(from: from), as: "bob"))
        #expect(sent?.frame.firstValue(of: .pAssertedIdentity)?.string == "<sip:bob@example.net>")
    }

    // MARK: T9.5

    @Test func `a stranger's request goes to the upstream or to a user, whatever its Route says`() throws {
        let bench = EngineBench.authenticating()
        let routes = ["Route: <sip:10.0.0.1;lr>, <sip:10.9.9.9;lr>", "Route: <sip:10.8.8.8>"]
        let out = bench.receiveProved(bench.phoneText(extra: routes), as: "bob")
        let sent = try #require(sentRequest(out))
        #expect(story(out).last == "invite > pbx" && !sent.frame.contains(.route))
        #expect(sent.uri.text == "sip:200@example.net")
        #expect(
            story(bench.receive(bench.phoneText(to: "sip:x@elsewhere.org", callID: "p3"))) == ["403 invite > phone"])
    }

    // MARK: T9.8

    /// The phone answers two challenges in one request: the PBX's and ours (RFC 3261 section 22.3).
    @Test func `a PBX that challenges is reached`() throws {
        let bench = EngineBench.authenticating()
        let request = bench.phoneText()
        let challenge = try #require(sentResponse(bench.receive(request)))
        let proved = TestDigest.answer(challenge, to: request, as: "bob")
        let first = try #require(sentRequest(bench.receive(proved)))
        #expect(!first.frame.contains(.proxyAuthorization))
        let asked = SIPText.response(407, to: first, tag: "x").replacing(
            "Call-ID:",
            with: "Proxy-Authenticate: Digest realm=\"pbx\", nonce=\"n\", algorithm=MD5, qop=\"auth\"\r\nCall-ID:")
        let theirs = try #require(sentResponse(bench.receive(asked, from: EngineBench.pbx)))
        #expect(theirs.status == .proxyAuthenticationRequired)

        let both = TestDigest.answer(
            theirs, to: TestDigest.answer(challenge, to: request, as: "bob", count: 2), as: "bob", realm: "pbx")
        let second = try #require(sentRequest(bench.receive(both)))
        let passed = second.frame.values(of: .proxyAuthorization).map(\.string)
        #expect(passed.count == 1 && passed[0].contains("realm=\"pbx\""))
        #expect(second.frame.firstValue(of: .pAssertedIdentity)?.string == "<sip:bob@example.net>")
    }

    @Test func `challenges of two phones are merged, and answers to both reach them`() throws {
        let bench = EngineBench()
        let other = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)
        bench.register(token: nil)
        bench.register(token: nil, callID: "r2", from: other)
        let extra = [
            "Proxy-Authorization: Digest username=\"a\", realm=\"one\"",
            "Proxy-Authorization: Digest username=\"a\", realm=\"example.net\"",
            "Authorization: Digest username=\"a\", realm=\"EXAMPLE.net\"",
            "Authorization: Digest username=\"a\", realm=\"two\"",
        ]
        let sent = bench.invite(extra: extra).texts.filter { $0.hasPrefix("INVITE") }
        #expect(sent.count == 2)
        for text in sent {
            #expect(text.contains("realm=\"one\"") && text.contains("realm=\"two\""))
            #expect(!text.lowercased().contains("realm=\"example.net\""))
        }
    }
}
