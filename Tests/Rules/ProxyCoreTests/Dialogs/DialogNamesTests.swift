import Addressing
import Bytes
import ProxyCore
import Registration
import SIPGrammar
import Telemetry
import Testing
import TestSupport
import Timekeeping

/// A phone in a call with the PBX, in which either side may be the caller.
private struct Talk {
    let bench: EngineBench
    /// The header fields of the dialog, as the phone writes them.
    let from, to, callID: String
    let routes: [String]
    /// The INVITE as the PBX sends or receives it.
    let invite: SIPRequest
    let answer: SIPResponse

    /// Makes a call from the PBX to bob.
    init(calling header: String, token: String? = nil) throws {
        bench = EngineBench()
        bench.register(token: token)
        let text = bench.inviteText().replacing("To: <sip:bob@example.net>", with: "To: \(header)")
        let sent = try #require(readRequest(text))
        let delivered = try #require(sentRequest(bench.receive(text, from: EngineBench.pbx)))
        answer = try #require(
            sentResponse(bench.receive(SIPText.response(200, to: delivered, tag: "b", contact: "sip:bob@192.0.2.5"))))
        invite = sent
        from = "\(header);tag=b"
        to = delivered.frame.firstValue(of: .from)?.string ?? ""
        callID = delivered.callID.string
        routes = delivered.frame.values(of: .recordRoute).map(\.string)
    }

    /// Makes a call from bob to the PBX.
    init(calledBy header: String) throws {
        bench = EngineBench.authenticating()
        let registered = bench.receiveProved(bench.registerText(token: nil), as: "bob")
        _ = bench.commitAll(in: registered)
        let text = bench.phoneText().replacing("From: <sip:bob@example.net>", with: "From: \(header)")
        let delivered = try #require(sentRequest(bench.receiveProved(text, as: "bob")))
        let ok = SIPText.response(200, to: delivered, tag: "b", contact: "sip:200@10.0.0.2")
        answer = try #require(sentResponse(bench.receive(ok, from: EngineBench.pbx)))
        invite = delivered
        from = "\(header);tag=fp1"
        to = answer.frame.firstValue(of: .to)?.string ?? ""
        callID = "p1"
        routes = answer.frame.values(of: .recordRoute).reversed().map(\.string)
    }

    /// Sends a request of the phone inside the dialog.
    ///
    /// - Returns: the actions that the engine ordered.
    func send(
        _ method: String, on other: EngineBench? = nil, from name: String? = nil, extra: [String] = [],
        number: Int = 20, branch: String? = nil
    ) -> [String] {
        story((other ?? bench).receive(text(method, from: name, extra: extra, number: number, branch: branch)))
    }

    /// Sends a request of the phone inside the dialog.
    ///
    /// - Returns: the request that the daemon forwards.
    func sent(_ method: String, from name: String, number: Int) -> SIPRequest? {
        sentRequest(bench.receive(text(method, from: name, number: number)))
    }

    private func text(
        _ method: String, from name: String?, extra: [String] = [], number: Int, branch: String? = nil
    ) -> [UInt8] {
        let tag = from.split(separator: ";tag=").last ?? ""
        return SIPText.bytes(
            [
                "\(method) sip:103@10.0.0.2:5060 SIP/2.0",
                "Via: SIP/2.0/UDP 192.0.2.5:40000;rport;branch=z9hG4bK\(branch ?? "d\(method)\(number)")",
                "From: \(name.map { "\($0);tag=\(tag)" } ?? from)", "To: \(to)", "Call-ID: \(callID)",
                "CSeq: \(number) \(method)", "Max-Forwards: 70",
            ] + routes.map { "Route: \($0)" } + extra)
    }
}

@Suite("From inside a dialog is the From of its beginning (T20.7)")
struct DialogNamesTests {
    private static let others = [
        "<sip:boss@example.net>", "\"Boss\" <sip:boss@example.net>", "<sip:bob@elsewhere.invalid>",
        "<tel:+31201234567>",
        "<sip:example.net>", "<sip:anonymous@anonymous.invalid>", "<sip:bob2@example.net>", "<sip:bo@bexample.net>",
    ]

    private func passes(_ story: [String], _ method: String) -> Bool { story.last == "\(method.lowercased()) > pbx" }

    @Test(arguments: ["INVITE", "UPDATE", "INFO", "MESSAGE", "REFER", "SUBSCRIBE"])
    func `a phone that was called keeps its URI`(method: String) throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        #expect(passes(talk.send(method), method))
        for (number, other) in Self.others.enumerated() {
            #expect(
                talk.send(method, from: other, number: 30 + number) == ["403 \(method.lowercased()) > phone"],
                "\(other)")
        }
        #expect(talk.bench.engine.counters[.refusedName] == UInt64(Self.others.count))
    }

    @Test(arguments: ["INVITE", "UPDATE", "INFO", "MESSAGE"])
    func `a phone that has called keeps its URI and its name`(method: String) throws {
        let talk = try Talk(calledBy: "\"Bob\" <sip:bob@example.net>")
        #expect(passes(talk.send(method), method))
        let others = Self.others + ["\"The Boss\" <sip:bob@example.net>", "Boss <sip:bob@example.net>"]
        for (number, other) in others.enumerated() {
            #expect(
                talk.send(method, from: other, number: 30 + number) == ["403 \(method.lowercased()) > phone"],
                "\(other)")
        }
        let nameless = try Talk(calledBy: "<sip:bob@example.net>")
        #expect(nameless.send(method, from: "\"Boss\" <sip:bob@example.net>").first?.hasPrefix("403") == true)
    }

    @Test(arguments: [
        "<sip:bob@example.net>", "sip:bob@example.net", "<sip:b%6Fb@EXAMPLE.net:5060;user=phone>",
        "<sips:bob@example.net>",
        "Bob <sip:bob@example.net>", "\"B\\ob\" <sip:bob@example.net>",
    ])
    func `other notations of the name count as the same`(name: String) throws {
        #expect(passes(try Talk(calledBy: "\"Bob\" <sip:bob@example.net>").send("INFO", from: name), "INFO"))
    }

    @Test func `a phone that was called by another name may use its registered name, with its display name`()
        throws
    {
        let talk = try Talk(calling: "\"Sales\" <sip:sales@example.net>")
        #expect(passes(talk.send("UPDATE"), "UPDATE"))
        #expect(passes(talk.send("UPDATE", from: "\"Bob\" <sip:bob@example.net>", number: 21), "UPDATE"))
        #expect(talk.send("UPDATE", from: "<sip:boss@example.net>", number: 22) == ["403 update > phone"])
    }

    /// Returns the From field of the request that reaches the PBX.
    private func sentFrom(_ talk: Talk, _ method: String, _ from: String, number: Int) -> String? {
        talk.sent(method, from: from, number: number)?.frame.firstValue(of: .from)?.string
    }

    @Test(arguments: ["INVITE", "UPDATE", "INFO", "MESSAGE"])
    func `a display name that the caller has not used for the called phone is removed`(method: String) throws {
        let talk = try Talk(calling: "\"Sales\" <sip:bob@example.net>")
        for (number, name) in ["\"Boss\" ", "Boss ", "\"Sales \" ", "\"Sa\\les\"  ", "Sales\t", ""].enumerated() {
            let isKnown = name.contains("les")
            let expected = isKnown ? "\(name)<sip:bob@example.net>;tag=b" : "<sip:bob@example.net>;tag=b"
            #expect(
                sentFrom(talk, method, "\(name)<sip:bob@example.net>", number: 30 + number) == expected, "\(name)")
        }
        #expect(talk.bench.engine.counters[.refusedName] == 0)
    }

    @Test func `a called phone that showed no name at the beginning stays without one, even if it names itself later`()
        throws
    {
        let talk = try Talk(calling: "<sip:sales@example.net>")
        let own = sentFrom(talk, "UPDATE", "\"Bob\" <sip:bob@example.net;x=y>", number: 21)
        #expect(own == "<sip:bob@example.net;x=y>;tag=b")
    }

    @Test func `an answer finds its way although the phone's name was removed`() throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        let sent = try #require(talk.sent("UPDATE", from: "\"Boss\" <sip:bob@example.net>", number: 21))
        let answer = SIPText.response(200, to: sent, tag: sent.to.tag?.string ?? "")
        #expect(story(talk.bench.receive(answer, from: EngineBench.pbx)) == ["200 update > phone"])
    }

    @Test func `a calling phone keeps its name, and so does the PBX`() throws {
        let talk = try Talk(calledBy: "\"Bob\" <sip:bob@example.net>")
        #expect(
            sentFrom(talk, "INFO", "\"Bob\" <sip:bob@example.net>", number: 30)
                == "\"Bob\" <sip:bob@example.net>;tag=fp1")
    }

    @Test(arguments: ["BYE", "PRACK"])
    func `requests that end or acknowledge a call pass with any name`(method: String) throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        #expect(passes(talk.send(method, from: "<sip:boss@example.net>"), method))
    }

    @Test func `the ACK of a re-INVITE that was refused ends here`() throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        let boss = "<sip:boss@example.net>"
        #expect(talk.send("INVITE", from: boss) == ["403 invite > phone"])
        #expect(talk.send("ACK", from: boss, branch: "dINVITE20").isEmpty)
        #expect(talk.send("ACK") == ["ack > pbx"])
    }

    @Test func `it stays so after the phone has signed out, and in the next run of the program`() throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        talk.bench.register(token: nil, cseq: 3, expires: 0)
        #expect(passes(talk.send("INFO"), "INFO"))
        #expect(talk.send("UPDATE", from: "<sip:boss@example.net>") == ["403 update > phone"])
        let later = EngineBench(seed: 2)
        #expect(passes(talk.send("INFO", on: later, number: 21), "INFO"))
        #expect(talk.send("UPDATE", on: later, from: "<sip:boss@example.net>") == ["403 update > phone"])
    }

    /// The PBX may send another name, because the connected party may change during a call (RFC 4916).
    @Test func `the PBX may use another name`() throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        for (number, method) in ["INVITE", "UPDATE"].enumerated() {
            let text = SIPText.dialogRequest(
                method, cseq: 2 + number, invite: talk.invite, answer: talk.answer, at: EngineBench.pbx,
                branch: "c\(number)"
            ).replacing("\"Caller 103\" <sip:103@example.net>", with: "\"Desk\" <sip:104@example.net>")
            #expect(story(talk.bench.receive(text, from: EngineBench.pbx)).last == "\(method.lowercased()) > phone")
        }
    }

    // MARK: T9.15

    @Test(arguments: [
        "talk", "hold", "check-sync;reboot=true", "ACTION-URI", "service-control", "ua-profile", "", "x.winfo",
    ])
    func `a phone does not command the other side by a NOTIFY in their call (T9.15)`(event: String) throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        #expect(talk.send("NOTIFY", extra: ["Event: \(event)"]) == ["403 notify > phone"])
        #expect(talk.send("NOTIFY", extra: ["o: \(event)"], number: 21) == ["403 notify > phone"])
        #expect(talk.send("NOTIFY", extra: ["Event: refer", "o: \(event)"], number: 22) == ["403 notify > phone"])
        #expect(talk.bench.engine.counters[.refusedCommand] == 3)
    }

    @Test(arguments: ["refer;id=2", "Dialog", "presence.winfo", "message-summary", "conference ;x"])
    func `it reports the results of a transfer, and all that was subscribed to (T9.15)`(event: String) throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        #expect(passes(talk.send("NOTIFY", extra: ["Event: \(event)"]), "NOTIFY"))
    }

    @Test func `the PBX commands phones inside calls (T9.15)`() throws {
        let talk = try Talk(calling: "<sip:bob@example.net>")
        let text = SIPText.dialogRequest(
            "NOTIFY", cseq: 2, invite: talk.invite, answer: talk.answer, at: EngineBench.pbx, branch: "n"
        ).replacing("Max-Forwards:", with: "Event: talk\r\nMax-Forwards:")
        #expect(story(talk.bench.receive(text, from: EngineBench.pbx)) == ["notify > phone"])
    }
}
