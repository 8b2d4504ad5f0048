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

/// Tests which requests users may send to other people's phones (T9.11 to T9.13).
@Suite("Users do not command each other's phones (T9.11 to T9.13)")
struct RequestRulesTests {
    private static let eve = Endpoint(IPAddress(v4: 0xc000_0209), 40_009)

    /// A bench with the phones of bob and eve; bob calls eve directly, without a PBX.
    private func direct() -> EngineBench {
        let bench = EngineBench.authenticating { $0.upstream = nil }
        let registered = bench.receiveProved(
            bench.registerText(user: "eve", token: nil, callID: "re", from: Self.eve), as: "eve", from: Self.eve)
        _ = bench.commitAll(in: registered)
        return bench
    }

    private func send(
        _ bench: EngineBench, _ method: String, _ callID: String, extra: [String] = []
    ) -> [ProxyAction] {
        let request = bench.phoneText(method, to: "sip:eve@example.net", callID: callID, extra: extra)
        let first = bench.receive(request)
        guard let challenge = sentResponse(first), challenge.status == .proxyAuthenticationRequired else {
            return first
        }
        return bench.receive(TestDigest.answer(challenge, to: request, as: "bob"))
    }

    @Test(arguments: ["INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE", "PUBLISH"])
    func `a phone sends this to another phone (T9.11)`(method: String) {
        #expect(sentRequest(send(direct(), method, "x"))?.frame.bytes.string.hasPrefix(method) == true)
    }

    @Test(arguments: ["NOTIFY", "REFER", "FOO"], [true, false])
    func `and this is for trusted peers, with any password (T9.11)`(method: String, hasUpstream: Bool) throws {
        let bench = hasUpstream ? EngineBench.authenticating() : direct()
        let out = send(bench, method, "x", extra: ["Event: check-sync;reboot=true"])
        #expect(sentRequest(out) == nil)
        let answer = try #require(sentResponse(out))
        #expect(answer.status == .forbidden && answer.frame.bytes.string.contains("\r\nWarning: 399 example.net \""))
        #expect(bench.engine.counters[.refusedWithoutTrust] == 1)
    }

    @Test(arguments: ["NOTIFY", "REFER", "FOO"])
    func `a trusted peer does (T9.11)`(method: String) throws {
        let bench = EngineBench.registered(token: nil)
        let text = bench.inviteText(extra: ["Event: check-sync"]).replacing("INVITE", with: method)
        #expect(sentRequest(bench.receive(text, from: EngineBench.pbx)) != nil)
    }

    @Test(arguments: ["BYE", "PRACK", "UPDATE", "INFO"], [true, false])
    func `without a To tag this is 481, from any sender (T9.12)`(method: String, isTrusted: Bool) throws {
        let bench = direct()
        let out =
            isTrusted
            ? bench.receive(
                bench.inviteText(to: "eve").replacing("INVITE", with: method), from: EngineBench.pbx)
            : send(bench, method, "x")
        #expect(sentRequest(out) == nil && sentResponse(out)?.status == .callDoesNotExist)
        #expect(bench.engine.counters[.refusedWithoutDialog] == 1)
    }

    @Test func `the log reports it, and cannot be flooded`() {
        let sink = MemoryLogSink()
        let bench = EngineBench(
            users: TestDigest.users("bob"), log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) }
        ) {
            $0.authenticates = true
        }
        for number in 0..<40 {
            bench.receive(bench.phoneText("NOTIFY", to: "sip:eve@example.net", callID: "n\(number)"))
        }
        let lines = sink.lines.filter { $0.contains("request refused") }
        #expect(lines.count == 6)
        #expect(lines.allSatisfy { $0.contains("NOTIFY") && $0.contains("192.0.2.5") && $0.contains("trusted") })
    }

    // MARK: T9.13

    private static let commands = [
        "Answer-Mode: Auto", "answer-mode : Auto;require", "Priv-Answer-Mode: Auto", "P-Auto-Answer: normal",
        "Auto-Answer: yes", "AutoAnswer: TRUE", "Answer-After: 0",
        "Alert-Info: <http://x.invalid>;info=alert-autoanswer;delay=0", "Alert-Info: Ring Answer",
        "alert-info: ring-answer",
        "Alert-Info: Auto Answer", "Alert-Info: <http://127.0.0.1/Bellcore-dr1>;info=RingAnswer",
        "Alert-Info: intercom=true", "Alert-Info: info=alert-autoanswer",
        "Alert-Info: <urn:alert:source:external>, <http://x>;info=alert-autoanswer",
        "Alert-Info: <urn:alert:source:external>;info=alert-autoanswer", "Alert-Info: <urn:alert:source:auto-answer>",
        "Alert-Info:\r\n <x>;\r\n info=alert-autoanswer",
        "Call-Info: <sip:127.0.0.1>;answer-after=0", "Call-Info: <sip:x>; Answer-After = 0",
        "CALL-INFO:<sip:x>;purpose=info;answer-after=0", "Call-Info: answer-after=0", "Call-Info: sip:x;answer-after=0",
        "Call-Info: <sip:x;answer-after=0>", "Call-Info: <sip:x>;purpose=icon, <sip:y>;\r\n answer-after=0",
        "Call-Info: \"x\" <sip:x>;answer-after=0", "Call-Info: <sip:x>;auto-answer=true",
    ]

    @Test(arguments: commands)
    func `a request that makes a phone answer by itself is not forwarded between phones, or to the PBX (T9.13)`(
        row: String
    )
        throws
    {
        let marks = [row, "Subject: stays"]
        let name = row.prefix { $0 != ":" && $0 != " " }.lowercased()
        for bench in [direct(), EngineBench.authenticating()] {
            let sent = try #require(sentRequest(send(bench, "INVITE", "x", extra: marks)))
            let text = sent.frame.bytes.string.lowercased()
            #expect(!text.contains("\r\n\(name)") && text.contains("subject: stays"), "\(text)")
        }
    }

    @Test(arguments: [
        "Alert-Info: <urn:alert:source:external>",
        "Alert-Info: <urn:alert:service:call-waiting> , <urn:alert:priority:low>",
        "Call-Info: <http://x.invalid/a.png>;purpose=icon",
        "Call-Info: <http://x>;purpose=icon, <http://y> ;purpose = card",
        "Call-Info: <sip:x>",
    ])
    func `a request that only informs is forwarded (T9.13)`(row: String) throws {
        let sent = try #require(sentRequest(send(direct(), "INVITE", "x", extra: [row])))
        #expect(sent.frame.bytes.string.contains(row + "\r\n"))
    }

    @Test(arguments: commands)
    func `a PBX pages (T9.13)`(row: String) throws {
        let bench = EngineBench.registered(token: nil)
        let sent = try #require(sentRequest(bench.invite(extra: [row])))
        #expect(sent.frame.bytes.string.contains(row + "\r\n"))
    }

    @Test func `an answer of a phone loses them as well (T9.13)`() throws {
        let bench = direct()
        let invite = try #require(sentRequest(send(bench, "INVITE", "x")))
        let ringing = SIPText.response(180, to: invite, tag: "e").replacing(
            "Call-ID:", with: "Alert-Info: <http://x>;info=alert-autoanswer\r\nAnswer-Mode: Auto\r\nCall-ID:")
        let relayed = try #require(sentResponse(bench.receive(ringing, from: Self.eve)))
        #expect(relayed.status == 180 && !relayed.frame.contains(.alertInfo) && !relayed.frame.contains(.answerMode))
    }

    // MARK: T9.14

    @Test(arguments: [
        "P-Asserted-Service", "P-Served-User", "P-Called-Party-ID", "P-Preferred-Service", "P-Profile-Key",
        "P-Charge-Info",
        "P-Associated-URI", "P-Visited-Network-ID", "P-User-Database", "P-DCS-Billing-Info", "P-Answer-State", "P-Hint",
        "P-Private-Network-Indication", "P-Alerting-Mode", "P-Anything-At-All",
    ])
    func `of a phone's P- fields, only harmless ones are forwarded (T9.14)`(name: String) throws {
        let rows = ["\(name): evil", "\(name.lowercased()) : evil", "P-Early-Media: supported", "P-RTP-Stat: PS=1"]
        let bench = EngineBench.authenticating()
        let text = try #require(sentRequest(send(bench, "INVITE", "x", extra: rows))).frame.bytes.string
        #expect(
            !text.contains("evil") && text.contains("P-Early-Media: supported\r\n") && text.contains("P-RTP-Stat: PS=1")
        )
        let trusted = EngineBench.registered(token: nil)
        let sent = try #require(sentRequest(trusted.invite(extra: ["\(name): good"])))
        #expect(sent.frame.bytes.string.contains("\(name): good\r\n"))
    }
}
