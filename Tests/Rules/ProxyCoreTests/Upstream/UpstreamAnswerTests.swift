import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests responses of the PBX, and the host names that phones use for the PBX (T9.17 to T9.19).
@Suite("Responses of the PBX (T9.17, T9.18), and its names (T9.19)")
struct UpstreamAnswerTests {
    private static func challenge(_ status: Status, to request: SIPRequest, _ challenges: [String]) -> [UInt8] {
        let name = status == .unauthorized ? "WWW-Authenticate" : "Proxy-Authenticate"
        let rows = challenges.map { "\(name): \($0)\r\n" }.joined()
        return SIPText.response(status, to: request, tag: "x").replacing("Call-ID:", with: "\(rows)Call-ID:")
    }

    @Test(arguments: ["MESSAGE", "INVITE", "SUBSCRIBE"], [401, 407] as [UInt16])
    func `a challenge in a realm of the daemon is 502 with a Warning, and the log has the remedy (T9.17)`(
        method: String, status: UInt16
    ) throws {
        let sink = MemoryLogSink()
        let bench = EngineBench(
            users: TestDigest.users("bob"), log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) }
        ) {
            $0.authenticates = true
            $0.upstream = NextHop("sip:10.0.0.2:5060")
        }
        let sent = try #require(sentRequest(bench.receiveProved(bench.phoneText(method), as: "bob")))
        let asked = Self.challenge(
            Status(code: status), to: sent, ["Digest realm=\"EXAMPLE.net\", nonce=\"n\", algorithm=MD5"])
        let answer = try #require(sentResponse(bench.receive(asked, from: EngineBench.pbx)))
        #expect(answer.status == .badGateway && !answer.frame.contains(.proxyAuthenticate))
        #expect(answer.frame.bytes.string.contains("\r\nWarning: 399 example.net \""))
        #expect(bench.engine.counters[.challengeUnanswerable] == 1)
        let line = try #require(sink.lines.first { $0.contains("challenges phones in this daemon's own realm") })
        for word in ["notice", "10.0.0.2:5060", method, "example.net", "its own realm"] {
            #expect(line.contains(word))
        }
    }

    @Test func `a challenge in another realm is forwarded, and so is one with a second realm of its own (T9.17)`()
        throws
    {
        for challenges in [
            ["Digest realm=\"pbx\", nonce=\"n\""], ["Digest realm=\"pbx\"", "Digest realm=\"example.net\""],
        ] {
            let bench = EngineBench.authenticating()
            let sent = try #require(sentRequest(bench.receiveProved(bench.phoneText(), as: "bob")))
            let asked = Self.challenge(407, to: sent, challenges)
            #expect(sentResponse(bench.receive(asked, from: EngineBench.pbx))?.status == .proxyAuthenticationRequired)
        }
    }

    @Test func `inside a call it is 500, which ends no call (T9.17)`() throws {
        let bench = EngineBench.registered(token: nil)
        let delivered = try #require(sentRequest(bench.invite()))
        let ok = SIPText.response(200, to: delivered, tag: "b", contact: "sip:bob@192.0.2.5")
        let answer = try #require(sentResponse(bench.receive(ok)))
        let sent = try #require(readRequest(bench.inviteText()))
        let info = SIPText.dialogRequest(
            "INFO", cseq: 2, invite: sent, answer: answer, at: EngineBench.pbx, branch: "i")
        let got = try #require(sentRequest(bench.receive(info, from: EngineBench.pbx)))
        let refused = bench.receive(Self.challenge(401, to: got, ["Digest realm=\"example.net\""]))
        let told = try #require(sentResponse(refused))
        #expect(told.status == .serverError && told.frame.contains(.retryAfter))
    }

    @Test(arguments: ["Reason: Q.850;cause=34;text=\"No circuit\"", "reason : Q.850;cause=17"])
    func `the Reason of a 503 that becomes 500 is kept (T9.18)`(row: String) throws {
        let bench = EngineBench.authenticating()
        let sent = try #require(sentRequest(bench.receiveProved(bench.phoneText(), as: "bob")))
        let down = SIPText.response(503, to: sent, tag: "x").replacing("Call-ID:", with: row + "\r\nCall-ID:")
        let answer = try #require(sentResponse(bench.receive(down, from: EngineBench.pbx)))
        #expect(answer.status == .serverError)
        #expect(answer.frame.firstValue(of: .reason)?.string.hasPrefix("Q.850;cause=") == true)
    }

    // MARK: T9.19

    private func reaches(_ target: String, _ change: (inout ProxySettings) -> Void = { _ in }) -> Bool {
        let bench = EngineBench.authenticating(change)
        return sentRequest(bench.receiveProved(bench.phoneText(to: target), as: "bob"))?.uri.text.string == target
    }

    @Test(arguments: [
        "sip:103@10.0.0.2", "sip:103@10.0.0.2:5060", "sip:103@10.0.0.2:5061;transport=tls", "sips:103@10.0.0.2",
    ])
    func `a phone redials the PBX's From (T9.19)`(target: String) {
        #expect(reaches(target) == target.hasPrefix("sip:"))
    }

    @Test(arguments: ["sip:103@10.0.0.3", "sip:103@10.0.0.2:22", "sip:103@pbx.example.org", "http:10.0.0.2"])
    func `and nothing else (T9.19)`(target: String) { #expect(!reaches(target)) }

    @Test func `the hosts are a setting (T9.19)`() {
        let listed: (inout ProxySettings) -> Void = {
            $0.upstreamHosts = .listed([ByteString("pbx.example.org"), ByteString("192.0.2.99")])
        }
        #expect(reaches("sip:103@PBX.example.org", listed) && reaches("sip:103@192.0.2.99:5060", listed))
        #expect(!reaches("sip:103@10.0.0.2", listed))
        #expect(!reaches("sip:103@10.0.0.2") { $0.upstreamHosts = .listed([]) })
        #expect(!reaches("sip:103@10.0.0.2") { $0.upstream = nil })
    }

    @Test func `a name counts by the addresses that it was looked up to (T9.19)`() throws {
        let bench = EngineBench.authenticating { $0.upstream = NextHop("sip:pbx.example.com") }
        let first = bench.receiveProved(bench.phoneText(to: "sip:103@pbx.example.com"), as: "bob")
        let ticket = try #require(
            first.compactMap { if case .resolve(_, let ticket) = $0 { ticket } else { nil } }.first)
        #expect(
            sentRequest(bench.receiveProved(bench.phoneText(to: "sip:103@10.0.0.2", callID: "p2"), as: "bob")) == nil)
        let hop = ResolvedHop(transport: .udp, endpoint: EngineBench.pbx, isFixed: false)
        bench.engine.resolved(ticket, to: [hop], now: bench.now)
        #expect(sentRequest(bench.take()) != nil)
        let again = bench.receiveProved(bench.phoneText(to: "sip:103@10.0.0.2", callID: "p3"), as: "bob")
        #expect(again.contains { if case .resolve = $0 { true } else { false } })
    }

    @Test func `a From with that host is still no user (T9.6)`() throws {
        let bench = EngineBench.authenticating()
        let out = bench.receiveProved(bench.phoneText(from: "sip:bob@10.0.0.2"), as: "bob")
        #expect(story(out) == ["403 invite > phone"])
    }
}
