import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests the duties of a proxy in RFC 3261 and RFC 4320, if other parties are slow, late or wrong.
@Suite("Duties of a proxy")
struct ProxyDutiesTests {
    private static let second = Endpoint(IPAddress(v4: 0xc000_0206), 40_000)

    // MARK: 100 to requests other than INVITE (RFC 4320 section 4.1)

    @Test(arguments: ["MESSAGE", "SUBSCRIBE"])
    func `a request without an answer gets 100 after 3.5 s, and one with an answer gets none`(_ method: String)
        throws
    {
        let bench = EngineBench.registered(token: nil)
        let name = method.lowercased()
        let request = { (number: Int) in
            bench.inviteText(callID: "m\(number)", branch: "m\(number)").replacing("INVITE", with: method)
        }
        #expect(story(bench.receive(request(1), from: EngineBench.pbx)) == ["\(name) > phone"])
        #expect(!story(bench.pass(.milliseconds(3490))).contains { $0.hasPrefix("100") })
        let trying = bench.pass(.milliseconds(30))
        #expect(story(trying).contains("100 \(name) > pbx"))
        #expect(sentResponse(trying)?.callID == ByteString("m1"))
        #expect(story(bench.receive(request(1), from: EngineBench.pbx)) == ["100 \(name) > pbx"])
        let second = try #require(sentRequest(bench.receive(request(2), from: EngineBench.pbx)))
        #expect(story(bench.receive(SIPText.response(200, to: second, tag: "x"))) == ["200 \(name) > pbx"])
        #expect(!story(bench.pass(.seconds(20))).contains { $0.hasPrefix("100") && $0.contains("m2") })
    }

    // MARK: Too few Vias

    /// Removes the second Via from a phone's response. Some phones copy the header fields of the CANCEL, which has only
    /// one Via, into their response to the INVITE.
    private func withOneVia(_ response: [UInt8]) -> [UInt8] {
        var seen = false
        let rows = String(decoding: response, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
        return Array(
            rows.filter { row in
                guard row.hasPrefix("Via:") else { return true }
                defer { seen = true }
                return !seen
            }.joined(separator: "\r\n").utf8)
    }

    @Test func `a 487 that has the Via of the CANCEL ends the call for the caller`() throws {
        let bench = EngineBench.registered(token: nil)
        let invite = try #require(sentRequest(bench.invite()))
        bench.receive(SIPText.response(180, to: invite, tag: "b"))
        let original = try #require(readRequest(bench.inviteText()))
        #expect(story(bench.cancel()) == ["200 cancel > pbx", "cancel > phone"])
        let end = bench.receive(withOneVia(SIPText.response(487, to: invite, tag: "b")))
        #expect(story(end) == ["ack > phone", "487 invite > pbx"])
        let answer = try #require(sentResponse(end))
        #expect(answer.viaCount == 1 && answer.via.branch == original.via.branch)
    }

    @Test func `a 200 with one Via reaches the caller with the caller's Vias, its body and its Record-Route`() throws {
        let bench = EngineBench.registered(token: nil)
        let row = "Via: SIP/2.0/UDP 203.0.113.8;branch=z9hG4bKouter"
        let invite = try #require(sentRequest(bench.invite(extra: [row])))
        let ok = SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@192.0.2.5:40000")
        let answered = bench.receive(withOneVia(ok))
        #expect(story(answered) == ["200 invite > pbx"])
        let answer = try #require(sentResponse(answered))
        let vias = answer.frame.values(of: .via).map(\.string)
        #expect(vias.count == 2 && vias.last == "SIP/2.0/UDP 203.0.113.8;branch=z9hG4bKouter")
        #expect(vias.first?.contains("received=10.0.0.2") == true)
        #expect(answer.frame.values(of: .recordRoute).count == 1)
        #expect(answer.frame.firstValue(of: .contact) == ByteString("<sip:bob@192.0.2.5:40000>"))
    }

    @Test func `a 180 with one Via is for the proxy itself`() throws {
        let bench = EngineBench.registered(token: nil)
        let invite = try #require(sentRequest(bench.invite()))
        #expect(bench.receive(withOneVia(SIPText.response(180, to: invite, tag: "b"))).isEmpty)
    }

    // MARK: A CANCEL that matches nothing (RFC 3261 section 16.10)

    private func cancel(to user: String = "bob", _ bench: EngineBench) throws -> [UInt8] {
        SIPText.hopRequest("CANCEL", for: try #require(readRequest(bench.inviteText(to: user, branch: "lost"))))
    }

    @Test func `it is forwarded to the phone, and the answer comes back`() throws {
        let bench = EngineBench.registered()
        let out = bench.receive(try cancel(bench), from: EngineBench.pbx)
        #expect(story(out) == ["cancel > phone"])
        let forwarded = try #require(sentRequest(out))
        #expect(forwarded.frame.values(of: .via).count == 2)
        #expect(story(bench.receive(SIPText.response(481, to: forwarded, tag: "b"))) == ["481 cancel > pbx"])
    }

    @Test func `it is 481 if no target is reachable and no password can be asked for`() throws {
        let bench = EngineBench.registered { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        #expect(story(bench.receive(try cancel(to: "nobody", bench), from: EngineBench.pbx)) == ["481 cancel > pbx"])
        let other = try cancel(bench).replacing("z9hG4bKlost", with: "z9hG4bKother")
        #expect(story(bench.receive(other, from: Self.second)) == ["481 cancel > \(Self.second)"])
    }

    @Test func `a registered phone's request goes to the upstream`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        bench.register(user: "103")
        #expect(story(bench.receive(try cancel(bench))) == ["cancel > pbx"])
    }
}
