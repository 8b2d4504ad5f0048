import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests requests from phones whose users are registered at a PBX that asks for passwords in the daemon's realm.
@Suite("Calls of phones to their PBX")
struct PBXCallTests {
    private static let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)

    /// Makes a bench in which bob's phone has registered with the right password.
    private func bench(log: Log = .silent) -> PBXBench {
        var pbx = PBXBench(log: log) { $0.authenticates = true }
        let proved = pbx.bench.receiveProved(pbx.bench.registerText(), as: "bob")
        pbx.react(to: proved + pbx.bench.commitAll(in: proved))
        pbx.pass(.seconds(2))
        return pbx
    }

    private func call(
        _ pbx: PBXBench, from user: String = "bob", at source: Endpoint = EngineBench.phone, callID: String = "o1",
        cseq: Int = 1, extra: [String] = []
    ) -> [ProxyAction] {
        let text = SIPText.invite(
            to: "101", from: user, at: source, callID: callID, branch: "\(callID)\(cseq)", extra: extra)
        return pbx.bench.receive(text.replacing("CSeq: 1", with: "CSeq: \(cseq)"), from: source)
    }

    private func toPBX(_ actions: [ProxyAction], _ method: Method = .invite) -> SIPRequest? {
        for case .send(let bytes, let flow) in actions where flow.remote == EngineBench.pbx {
            if let request = readRequest(bytes), request.method == method { return request }
        }
        return nil
    }

    private func challenge(_ request: SIPRequest) -> [UInt8] {
        SIPText.response(
            401, to: request, tag: "p",
            extra: ["WWW-Authenticate: Digest realm=\"example.net\", nonce=\"ofThePBX\", qop=\"auth\""])
    }

    private static let credentials =
        "Authorization: Digest username=\"bob\", realm=\"example.net\", nonce=\"ofThePBX\", uri=\"sip:101@example.net\", response=\"0123456789abcdef0123456789abcdef\", qop=auth, nc=00000001, cnonce=\"c\""

    @Test func `the PBX asks a registered phone for the password, and gets the answer unchanged`() throws {
        let pbx = bench()
        let first = try #require(toPBX(call(pbx)))
        #expect(first.from.uri.text.string == "sip:bob@example.net")
        #expect(!first.frame.contains(.pAssertedIdentity))
        let challenged = pbx.bench.receive(challenge(first), from: EngineBench.pbx)
        let answer = try #require(challenged.texts.last { $0.hasPrefix("SIP/2.0 401") })
        #expect(answer.contains("ofThePBX"))
        let second = try #require(toPBX(call(pbx, cseq: 2, extra: [Self.credentials])))
        let row = second.frame.firstValue(of: .authorization)?.string ?? ""
        #expect("Authorization: \(row)" == Self.credentials)
        let accepted = pbx.bench.receive(SIPText.response(180, to: second, tag: "p"), from: EngineBench.pbx)
        #expect(accepted.texts.contains { $0.hasPrefix("SIP/2.0 180") })
        #expect(pbx.engine.upstreamUsers.pbxs.first?.credence == .asks)
    }

    @Test func `only the phone that has registered on this flow is passed on, and only as its user`() {
        let pbx = bench()
        // The PBX must get no call from another address or port, in another user's name, or after the end of the
        // registration.
        #expect(call(pbx, at: Self.stranger, callID: "s1").texts.last?.hasPrefix("SIP/2.0 407") == true)
        let port = Endpoint(EngineBench.phone.address, EngineBench.phone.port + 1)
        #expect(call(pbx, at: port, callID: "s2").texts.last?.hasPrefix("SIP/2.0 407") == true)
        #expect(call(pbx, from: "eve", callID: "s3").texts.last?.hasPrefix("SIP/2.0 407") == true)
        let foreign = call(pbx, at: Self.stranger, callID: "s4", extra: [Self.credentials])
        #expect(toPBX(foreign) == nil)
        _ = pbx.bench.pass(.seconds(100_000))
        #expect(toPBX(call(pbx, callID: "s5")) == nil)
    }

    @Test func `a PBX that accepts a call without a password is noticed, and phones are asked here`() throws {
        let sink = LineSink()
        let pbx = bench(log: Log(level: .warning, sink: sink) { UnixTime(milliseconds: 0) })
        let first = try #require(toPBX(call(pbx)))
        #expect(sink.take().filter { $0.contains("accepts requests from this daemon without a password") }.isEmpty)
        _ = pbx.bench.receive(SIPText.response(180, to: first, tag: "p"), from: EngineBench.pbx)
        #expect(pbx.engine.upstreamUsers.pbxs.first?.credence == .takesOurWord)
        #expect(sink.take().filter { $0.contains("accepts requests from this daemon without a password") }.count == 1)
        let asked = call(pbx, callID: "o2")
        #expect(toPBX(asked) == nil)
        #expect(asked.texts.last?.hasPrefix("SIP/2.0 407") == true)
        // If the phone shows the right password, the PBX gets the call without credentials, but with the authenticated
        // user.
        let proved = pbx.bench.receiveProved(
            SIPText.invite(to: "101", from: "bob", at: EngineBench.phone, callID: "o3", branch: "o3"), as: "bob",
            from: EngineBench.phone)
        let passed = try #require(toPBX(proved))
        #expect(!passed.frame.contains(.authorization) && !passed.frame.contains(.proxyAuthorization))
        #expect(passed.frame.firstValue(of: .pAssertedIdentity)?.string == "<sip:bob@example.net>")
    }

    @Test func `a refusal without a challenge does not make a PBX one that takes our word`() throws {
        let pbx = bench()
        let first = try #require(toPBX(call(pbx)))
        _ = pbx.bench.receive(SIPText.response(404, to: first, tag: "p"), from: EngineBench.pbx)
        #expect(pbx.engine.upstreamUsers.pbxs.first?.credence == .unknown)
        let second = try #require(toPBX(call(pbx, callID: "o2", extra: [Self.credentials])))
        _ = pbx.bench.receive(SIPText.response(200, to: second, tag: "p"), from: EngineBench.pbx)
        #expect(pbx.engine.upstreamUsers.pbxs.first?.credence == .unknown)
    }

    @Test func `a PBX that registers users without a password takes our word from the start`() {
        var pbx = PBXBench { $0.authenticates = true }
        pbx.asksPassword = false
        let proved = pbx.bench.receiveProved(pbx.bench.registerText(), as: "bob")
        pbx.react(to: proved + pbx.bench.commitAll(in: proved))
        pbx.pass(.seconds(2))
        #expect(pbx.engine.upstreamUsers.pbxs.first?.credence == .takesOurWord)
        #expect(call(pbx).texts.last?.hasPrefix("SIP/2.0 407") == true)
    }

    @Test func `an INVITE that the PBX sends back to the caller's token rings once, and an unchanged one is a loop`()
        throws
    {
        let pbx = bench()
        let first = try #require(toPBX(call(pbx)))
        var rows = String(decoding: first.frame.bytes.array, as: UTF8.self)
        let loop = pbx.bench.receive(Array(rows.utf8), from: EngineBench.pbx)
        #expect(loop.texts.contains { $0.hasPrefix("SIP/2.0 404") || $0.hasPrefix("SIP/2.0 482") })
        #expect(loop.pushes.isEmpty)
        // The PBX forwards the INVITE to the caller's own contact, as a proxy does, in 80 branches.
        rows = rows.replacing("INVITE sip:101@example.net", with: "INVITE sip:\(pbx.token())@10.0.0.1:5060")
        var pushes = 0
        for branch in 0..<80 {
            let via = "Via: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bKloop\(branch)\r\nVia:"
            let text = rows.replacing("\r\nVia:", with: "\r\n\(via)")
            pushes += pbx.bench.receive(Array(text.utf8), from: EngineBench.pbx).pushes.count
        }
        #expect(pushes <= 1)
    }
}
