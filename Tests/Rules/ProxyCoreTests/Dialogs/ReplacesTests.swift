import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport
import Testing

@Suite("INVITEs that replace a call (RFC 3891), and references to a phone (RFC 8599 section 6)")
struct ReplacesTests {
    /// Makes a call for bob, and lets one of his two phones answer.
    private func talk() throws -> (bench: EngineBench, callID: String) {
        let bench = EngineBench()
        for number in 1...2 {
            bench.register(token: nil, callID: "p\(number)", from: place(number))
        }
        let called = bench.invite()
        let invites = called.bytes.compactMap(readRequest)
        let first = try #require(invites.first { $0.uri.text.string.contains("40001") })
        _ = bench.receive(SIPText.response(200, to: first, tag: "bobs", contact: "sip:bob@x"), from: place(1))
        return (bench, "call1")
    }

    private func place(_ number: Int) -> Endpoint { Endpoint(EngineBench.phone.address, UInt16(40_000 + number)) }

    private func invite(_ bench: EngineBench, _ number: Int, replaces: String?, to uri: String? = nil) -> [String] {
        let extra = replaces.map { ["Replaces: \($0)", "Require: replaces"] } ?? []
        var text = String(
            decoding: SIPText.invite(
                to: "bob", from: "104", at: EngineBench.pbx, callID: "n\(number)", branch: "n\(number)", extra: extra),
            as: UTF8.self)
        if let uri { text = text.replacing("INVITE sip:bob@example.net", with: "INVITE \(uri)") }
        return story(bench.receive(Array(text.utf8), from: EngineBench.pbx)).filter { $0.hasPrefix("invite") }.sorted()
    }

    @Test func `an INVITE with Replaces reaches only the phone that has the call`() throws {
        let (bench, callID) = try talk()
        #expect(
            invite(bench, 1, replaces: "\(callID);to-tag=bobs;from-tag=fcall1") == ["invite > 192.0.2.5:40001"])
        #expect(
            invite(bench, 2, replaces: "\(callID) ; from-tag=x;TO-TAG=bobs;early-only") == ["invite > 192.0.2.5:40001"])
    }

    @Test(arguments: ["other;to-tag=bobs;from-tag=x", "call1;to-tag=else;from-tag=x", "call1", ";to-tag=bobs", ""])
    func `an INVITE whose Replaces names no call of the user reaches all phones of the user`(value: String) throws {
        let (bench, _) = try talk()
        #expect(invite(bench, 1, replaces: value).count == 2)
        #expect(invite(bench, 2, replaces: nil).count == 2)
    }

    @Test func `a phone is found by its pn-purr value, and a forged value is refused`() throws {
        let bench = EngineBench { $0.registrar.announcesPURR = true }
        bench.register(token: nil, callID: "other", from: place(9))
        let answer = try #require(bench.register().texts.last { $0.hasPrefix("SIP/2.0 200") })
        let purr = try #require(
            answer.split(separator: "+sip.pnspurr=\"").dropFirst().first?.split(separator: "\"").first)
        #expect(answer.contains("Feature-Caps: *;+sip.pns=\"fcm\";+sip.pnspurr=\"\(purr)\"\r\n"))
        // Each refresh returns a new temporary GRUU, and the earlier GRUUs stay valid.
        var others = Set<Substring>()
        for cseq in 2...20 {
            let again = try #require(bench.register(cseq: cseq).texts.last { $0.hasPrefix("SIP/2.0 200") })
            others.insert(
                try #require(again.split(separator: "+sip.pnspurr=\"").dropFirst().first?.split(separator: "\"").first))
        }
        #expect(others.count == 19 && !others.contains(purr))
        let uri = "sip:bob@192.0.2.5:40000;pn-purr=\(purr)"
        let text = String(
            decoding: SIPText.invite(to: "bob", from: "104", at: EngineBench.pbx, callID: "n", branch: "n"),
            as: UTF8.self)
        let out = bench.receive(
            Array(text.replacing("INVITE sip:bob@example.net", with: "INVITE \(uri)").utf8), from: EngineBench.pbx)
        #expect(story(out) == ["100 invite > pbx", "push invite tok1"])
        let forged = text.replacing("INVITE sip:bob@example.net", with: "INVITE sip:bob@192.0.2.5;pn-purr=\(purr)x")
            .replacing("branch=z9hG4bKn", with: "branch=z9hG4bKm")
        #expect(story(bench.receive(Array(forged.utf8), from: EngineBench.pbx)) == ["403 invite > pbx"])
    }

    @Test func `none is announced without the setting, and none to phones without pushes`() {
        #expect(EngineBench().register().texts.allSatisfy { !$0.contains("pnspurr") })
        let bench = EngineBench { $0.registrar.announcesPURR = true }
        #expect(bench.register(token: nil).texts.allSatisfy { !$0.contains("pnspurr") })
    }
}
