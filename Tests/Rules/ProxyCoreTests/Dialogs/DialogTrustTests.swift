import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// An answered call from the PBX to a phone, in which both sides send requests.
private struct Call {
    let bench: EngineBench
    /// The INVITE as the PBX sent it, and as the phone received it.
    let sent, delivered: SIPRequest
    /// The 200 as the PBX received it.
    let answer: SIPResponse
    let phone: Flow

    init(
        _ bench: EngineBench, phone: Flow = EngineBench.udp(EngineBench.phone), token: String? = "tok1",
        contact: String? = nil
    ) throws {
        self.bench = bench
        self.phone = phone
        bench.register(token: token, on: phone, contact: contact)
        let called = bench.invite()
        let woken = token.map { bench.register(token: $0, cseq: 2, on: phone) }
        delivered = try #require(sentRequest(woken ?? called))
        let ok = SIPText.response(200, to: delivered, tag: "b", contact: "sip:bob@192.0.2.5:40000")
        answer = try #require(sentResponse(bench.receive(ok, on: phone)))
        sent = try #require(readRequest(bench.inviteText()))
    }

    /// Makes a request that the PBX sends inside the dialog.
    func fromPBX(_ method: String, _ number: Int = 2, _ change: (String) -> String = { $0 }) -> [UInt8] {
        let bytes = SIPText.dialogRequest(
            method, cseq: number, invite: sent, answer: answer, at: EngineBench.pbx, branch: "p\(method)\(number)")
        return Array(change(String(decoding: bytes, as: UTF8.self)).utf8)
    }

    /// Makes a request that the phone sends inside the dialog.
    func fromPhone(_ method: String, _ number: Int = 20, _ change: (String) -> String = { $0 }) -> [UInt8] {
        let rows =
            [
                "\(method) sip:103@10.0.0.2:5060 SIP/2.0",
                "Via: SIP/2.0/UDP 192.0.2.5:40000;rport;branch=z9hG4bKb\(method)\(number)",
                "From: \(answer.frame.firstValue(of: .to)?.string ?? "")",
                "To: \(delivered.frame.firstValue(of: .from)?.string ?? "")", "Call-ID: \(delivered.callID)",
                "CSeq: \(number) \(method)", "Max-Forwards: 70",
            ] + delivered.frame.values(of: .recordRoute).map { "Route: \($0)" }
        return Array(change(String(decoding: SIPText.bytes(rows), as: UTF8.self)).utf8)
    }
}

extension EngineBench {
    fileprivate static let tcpPhone = Flow(transport: .tcp, listener: 1, connection: 7, remote: phone)
    fileprivate static let stranger = udp(Endpoint(IPAddress(v4: 0xcb00_7109), 5060))
    fileprivate static let pbxFlow = udp(pbx)

    @discardableResult
    fileprivate func register(
        token: String? = "tok1", callID: String = "r1", cseq: Int = 1, on flow: Flow, expires: Int = 3600,
        contact: String? = nil
    ) -> [ProxyAction] {
        let text = registerText(token: token, callID: callID, cseq: cseq, from: flow.remote, expires: expires)
        let first = receive(
            contact.map { contact in
                Array(String(decoding: text, as: UTF8.self).replacing("<sip:bob@\(flow.remote)>", with: contact).utf8)
            } ?? text, on: flow)
        return first + commitAll(in: first)
    }
}

extension [ProxyAction] {
    fileprivate var flows: [Flow] { compactMap { if case .send(_, let flow) = $0 { flow } else { nil } } }
}

/// Tests which requests each party may send inside a dialog (T20).
@Suite("Limits of the dialog token")
struct DialogTrustTests {
    @Test func `both ends reach each other`() throws {
        let call = try Call(EngineBench())
        #expect(story(call.bench.receive(call.fromPBX("ACK", 1), on: EngineBench.pbxFlow)) == ["ack > phone"])
        #expect(story(call.bench.receive(call.fromPBX("INFO"), on: EngineBench.pbxFlow)) == ["info > phone"])
        #expect(story(call.bench.receive(call.fromPhone("BYE"), on: call.phone)) == ["bye > pbx"])
    }

    @Test(arguments: ["INVITE", "MESSAGE", "BYE", "OPTIONS", "SUBSCRIBE", "ACK"])
    func `without a To tag it gives no access (T20.3)`(method: String) throws {
        let call = try Call(EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") })
        for (number, flow) in [EngineBench.pbxFlow, call.phone, EngineBench.stranger].enumerated() {
            let shapes = [call.fromPBX(method, 50 + number), call.fromPhone(method, 60 + number)].map { bytes in
                String(decoding: bytes, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
                    .map { $0.hasPrefix("To: ") ? $0.prefix { $0 != ">" } + ">" : $0 }.joined(separator: "\r\n")
            }
            for shape in shapes {
                #expect(!shape.contains("To: \"Caller 103\" <sip:103@example.net>;tag"))
                let answers = story(call.bench.receive(Array(shape.utf8), on: flow))
                #expect(answers.count == (method == "ACK" ? 0 : 1))
                #expect(answers.allSatisfy { $0.hasPrefix("403 ") })
            }
        }
    }

    @Test func `it belongs to one Call-ID and one caller's tag (T20.2)`() throws {
        let call = try Call(EngineBench())
        let changes: [(String) -> String] = [
            { $0.replacing("Call-ID: call1", with: "Call-ID: call2") }, { $0.replacing("tag=fcall1", with: "tag=f2") },
            { $0.replacing("tag=fcall1", with: "tag=b") },
        ]
        for (number, change) in changes.enumerated() {
            let pbx = call.bench.receive(call.fromPBX("BYE", 30 + number, change), on: EngineBench.pbxFlow)
            #expect(story(pbx) == ["403 bye > pbx"])
            let phone = call.bench.receive(call.fromPhone("BYE", 40 + number, change), on: call.phone)
            #expect(story(phone) == ["403 bye > phone"])
            let ack = call.bench.receive(call.fromPBX("ACK", 50 + number, change), on: EngineBench.pbxFlow)
            #expect(ack.isEmpty)
        }
        // The dialog token does not contain the callee's tag, because a call that forks has several callees.
        let fork = call.bench.receive(
            call.fromPBX("BYE", 3) { $0.replacing("tag=b\r\n", with: "tag=c\r\n") }, on: EngineBench.pbxFlow)
        #expect(story(fork) == ["bye > phone"])
    }

    @Test func `a third party that knows all values can send nothing (T20.4)`() throws {
        let call = try Call(EngineBench())
        let samePort = Flow(
            transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0xcb00_7109), 40_000))
        let sameHost = EngineBench.udp(Endpoint(EngineBench.phone.address, 40_001))
        for (number, flow) in [EngineBench.stranger, samePort, sameHost].enumerated() {
            for bytes in [call.fromPBX("BYE", 30 + number), call.fromPhone("BYE", 30 + number)] {
                let out = call.bench.receive(bytes, on: flow)
                #expect(story(out) == ["403 bye > \(flow.remote)"])
            }
            #expect(call.bench.receive(call.fromPBX("ACK", 1), on: flow).isEmpty)
            #expect(call.bench.receive(call.fromPhone("ACK", 1), on: flow).isEmpty)
        }
    }

    @Test func `neither end speaks for the other`() throws {
        let call = try Call(EngineBench())
        #expect(story(call.bench.receive(call.fromPBX("BYE"), on: call.phone)) == ["403 bye > phone"])
        #expect(story(call.bench.receive(call.fromPhone("BYE"), on: EngineBench.pbxFlow)) == ["403 bye > pbx"])
    }

    @Test func `any trusted address is the PBX's side, and one port alone where it shares the address`() throws {
        let second = EngineBench.udp(Endpoint(IPAddress(v4: 0x0a00_0002), 39_999))
        let call = try Call(EngineBench())
        #expect(story(call.bench.receive(call.fromPBX("BYE"), on: second)) == ["bye > phone"])
        let narrow = try Call(EngineBench { $0.trusted = [TrustedPeer("10.0.0.2:5060")].compactMap { $0 } })
        #expect(story(narrow.bench.receive(narrow.fromPBX("BYE"), on: second)) == ["403 bye > 10.0.0.2:39999"])
    }

    @Test func `where a password can prove it, a phone elsewhere is asked for it`() throws {
        let bench = EngineBench()
        let call = try Call(bench)
        bench.change { $0.authenticates = true }
        let out = bench.receive(call.fromPhone("BYE"), on: EngineBench.stranger)
        #expect(story(out) == ["407 bye > \(EngineBench.stranger.remote)"])
        #expect(story(bench.receive(call.fromPBX("BYE"), on: EngineBench.stranger)).first?.hasPrefix("403") == true)
        #expect(bench.receive(call.fromPhone("ACK", 1), on: EngineBench.stranger).isEmpty)
    }

    @Test func `a phone that registers at a new address keeps its dialog`() throws {
        let call = try Call(EngineBench())
        let moved = EngineBench.udp(Endpoint(IPAddress(v4: 0xcb00_7102), 999))
        call.bench.register(callID: "r2", on: moved)
        #expect(call.bench.receive(call.fromPBX("INFO"), on: EngineBench.pbxFlow).flows == [moved])
        #expect(story(call.bench.receive(call.fromPhone("BYE"), on: moved)) == ["bye > pbx"])
    }

    @Test func `after it has signed out a phone ends its call from where it was, and strangers do not reach it`() throws
    {
        let call = try Call(EngineBench())
        call.bench.register(cseq: 3, on: call.phone, expires: 0)
        #expect(call.bench.engine.bindings.count == 0)
        let stranger = call.bench.receive(call.fromPBX("INVITE", 5), on: EngineBench.stranger)
        #expect(story(stranger).allSatisfy { $0.hasPrefix("403") })
        #expect(story(call.bench.receive(call.fromPBX("INFO"), on: EngineBench.pbxFlow)) == ["info > phone"])
        #expect(story(call.bench.receive(call.fromPhone("BYE"), on: call.phone)) == ["bye > pbx"])
    }

    // MARK: Connections

    @Test func `for a stream it means this one connection, and no new one is opened to the phone's source`() throws {
        let call = try Call(EngineBench(), phone: EngineBench.tcpPhone)
        #expect(call.bench.receive(call.fromPBX("INFO"), on: EngineBench.pbxFlow).flows == [EngineBench.tcpPhone])
        let other = Flow(transport: .tcp, listener: 1, connection: 8, remote: EngineBench.phone)
        #expect(story(call.bench.receive(call.fromPhone("INFO"), on: other)) == ["403 info > phone"])
        #expect(story(call.bench.receive(call.fromPhone("INFO", 21), on: EngineBench.tcpPhone)) == ["info > pbx"])
        call.bench.engine.flowClosed(EngineBench.tcpPhone, now: call.bench.now)
        call.bench.take()
        call.bench.register(cseq: 4, on: other)
        #expect(call.bench.receive(call.fromPBX("BYE", 3), on: EngineBench.pbxFlow).flows == [other])
        #expect(story(call.bench.receive(call.fromPhone("BYE", 22), on: other)) == ["bye > pbx"])
    }

    @Test func `a connection of an earlier run with the same number and the same remote is another one`() throws {
        let call = try Call(EngineBench(), phone: EngineBench.tcpPhone)
        let later = EngineBench(seed: 2)
        #expect(story(later.receive(call.fromPhone("BYE"), on: EngineBench.tcpPhone)) == ["403 bye > phone"])
        #expect(story(later.receive(call.fromPBX("BYE"), on: EngineBench.pbxFlow)) == ["480 bye > pbx"])
    }

    @Test func `one without pushes is called back at its Contact's port, as a new call would be (T9.2)`() throws {
        let bench = EngineBench()
        let call = try Call(bench, phone: EngineBench.tcpPhone, token: nil)
        bench.engine.flowClosed(EngineBench.tcpPhone, now: bench.now)
        bench.take()
        let connection = Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.phone)
        #expect(bench.receive(call.fromPBX("ACK", 1), on: EngineBench.pbxFlow).flows == [connection])
        #expect(bench.receive(call.fromPBX("BYE"), on: EngineBench.pbxFlow).flows == [connection])
        // If a phone has the address of a trusted peer, the daemon opens no connection to the phone's port.
        let shared = EngineBench { $0.trusted += [TrustedPeer("192.0.2.5:5099")].compactMap { $0 } }
        let other = try Call(shared, phone: EngineBench.tcpPhone, token: nil, contact: "<sip:bob@192.0.2.5:5099>")
        shared.engine.flowClosed(EngineBench.tcpPhone, now: shared.now)
        shared.take()
        #expect(story(shared.receive(other.fromPBX("BYE"), on: EngineBench.pbxFlow)) == ["480 bye > pbx"])
    }

    @Test func `a phone with a token and without a connection is 500 until it registers, if it may not be woken`()
        throws
    {
        let call = try Call(EngineBench { $0.call.wakesInDialogs = false }, phone: EngineBench.tcpPhone)
        call.bench.engine.flowClosed(EngineBench.tcpPhone, now: call.bench.now)
        call.bench.take()
        #expect(story(call.bench.receive(call.fromPBX("INFO"), on: EngineBench.pbxFlow)) == ["500 info > pbx"])
        #expect(call.bench.receive(call.fromPBX("ACK", 1), on: EngineBench.pbxFlow).isEmpty)
    }

    // MARK: Edges and spirals

    /// An edge proxy answers for the phone behind it, possibly from another port. The Record-Route of the edge proxy
    /// says how to reach the phone.
    @Test(arguments: [true, false])
    func `a call along a Path continues along the edge's Record-Route`(isTrusted: Bool) throws {
        let edge = EngineBench.udp(Endpoint(IPAddress(v4: 0x0a00_0004), 5062))
        let registrant = EngineBench.udp(Endpoint(IPAddress(v4: 0x0a00_0003), 5060))
        let bench = EngineBench { settings in
            settings.trusted += ["10.0.0.3", isTrusted ? "10.0.0.4" : "10.0.0.5"].compactMap { TrustedPeer($0) }
        }
        let first = bench.receive(
            bench.registerText(token: nil, extra: ["Path: <sip:t0ken@10.0.0.4:5062;lr>"]), on: registrant)
        _ = bench.commitAll(in: first)
        let called = bench.invite()
        #expect(called.flows.last == edge)
        let delivered = try #require(sentRequest(called))
        let ok = String(
            decoding: SIPText.response(200, to: delivered, tag: "b", contact: "sip:bob@192.0.2.5:40000"),
            as: UTF8.self)
        let recorded = ok.replacing(
            "\r\nRecord-Route: ", with: "\r\nRecord-Route: <sip:t0ken@10.0.0.4:5062;lr>\r\nRecord-Route: ",
            maxReplacements: 1)
        let answer = try #require(sentResponse(bench.receive(Array(recorded.utf8), on: edge)))
        let sent = try #require(readRequest(bench.inviteText()))
        for method in ["ACK", "INFO"] {
            let out = bench.receive(
                SIPText.dialogRequest(
                    method, cseq: method == "ACK" ? 1 : 2, invite: sent, answer: answer, at: EngineBench.pbx,
                    branch: "e\(method)"), on: EngineBench.pbxFlow)
            #expect(out.flows == [edge])
            #expect(
                try #require(sentRequest(out)).frame.values(of: .route).map(\.string) == [
                    "<sip:t0ken@10.0.0.4:5062;lr>"
                ])
        }
        func fromPhone(_ number: Int) -> [UInt8] {
            SIPText.bytes(
                [
                    "INFO sip:103@10.0.0.2:5060 SIP/2.0", "Via: SIP/2.0/UDP 10.0.0.4:5062;branch=z9hG4bKx\(number)",
                    "From: \(answer.frame.firstValue(of: .to)?.string ?? "")",
                    "To: \(delivered.frame.firstValue(of: .from)?.string ?? "")", "Call-ID: \(delivered.callID)",
                    "CSeq: \(number) INFO", "Max-Forwards: 70",
                ] + delivered.frame.values(of: .recordRoute).map { "Route: \($0)" })
        }
        #expect(story(bench.receive(fromPhone(20), on: edge)) == ["info > pbx"])
        let otherPort = EngineBench.udp(Endpoint(edge.remote.address, 40_404))
        #expect(story(bench.receive(fromPhone(21), on: otherPort)) == ["info > pbx"])
        #expect(story(bench.receive(fromPhone(22), on: EngineBench.stranger)).first?.hasPrefix("403") == true)
    }

    /// In a spiral, one phone calls another through a PBX that is a proxy. The dialog of the spiral passes the daemon
    /// twice, with a dialog token for each pass.
    @Test func `in a spiral each token leads one half of the way, and neither past the PBX`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        let caller = EngineBench.udp(Endpoint(IPAddress(v4: 0xc000_0206), 40_000))
        let callee = EngineBench.udp(EngineBench.phone)
        bench.register(user: "103", callID: "ra", from: caller.remote)
        bench.register(user: "bob", token: nil, callID: "rb", from: callee.remote)

        /// Lets the PBX forward the message that it received. If the message is a response, the PBX removes its own
        /// Via.
        func throughPBX(_ out: [ProxyAction], _ number: Int) throws -> [ProxyAction] {
            #expect(out.flows.last == EngineBench.pbxFlow)
            let text = try #require(out.texts.last)
            let via = "Via: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bKpbx\(number)\r\n"
            guard let end = text.firstRange(of: "\r\n") else { return [] }
            let sentOn =
                text.hasPrefix("SIP/2.0")
                ? String(text[..<end.upperBound]) + text[end.upperBound...].drop { $0 != "\r\n" }.dropFirst()
                : String(text[..<end.upperBound]) + via + text[end.upperBound...]
            return bench.receive(Array(sentOn.utf8), on: EngineBench.pbxFlow)
        }

        let invite = SIPText.invite(to: "bob", from: "103", at: caller.remote, callID: "spiral", branch: "s1")
        let called = try throughPBX(bench.receive(invite, on: caller), 1)
        #expect(story(called) == ["100 invite > pbx", "invite > phone"])
        let delivered = try #require(sentRequest(called))
        let tokens = delivered.frame.values(of: .recordRoute).map(\.string)
        #expect(tokens.count == 2 && tokens.first != tokens.last)
        let ok = SIPText.response(200, to: delivered, tag: "b", contact: "sip:bob@192.0.2.5:40000")
        let answered = try throughPBX(bench.receive(ok, on: callee), 1)
        #expect(answered.flows == [caller])
        let (sent, answer) = (try #require(readRequest(invite)), try #require(sentResponse(answered)))
        #expect(answer.frame.values(of: .recordRoute).map(\.string) == tokens)

        func fromCaller(_ method: String, _ number: Int) -> [UInt8] {
            SIPText.dialogRequest(
                method, cseq: number, invite: sent, answer: answer, at: caller.remote, branch: "c\(method)\(number)")
        }
        func fromCallee(_ method: String, _ number: Int, routes: [String]) -> [UInt8] {
            SIPText.bytes(
                [
                    "\(method) sip:103@\(caller.remote) SIP/2.0",
                    "Via: SIP/2.0/UDP 192.0.2.5:40000;rport;branch=z9hG4bKd\(method)\(number)",
                    "From: \(answer.frame.firstValue(of: .to)?.string ?? "")",
                    "To: \(sent.frame.firstValue(of: .from)?.string ?? "")", "Call-ID: spiral",
                    "CSeq: \(number) \(method)", "Max-Forwards: 70",
                ] + routes.map { "Route: \($0)" })
        }
        for (number, method) in ["ACK", "INFO", "BYE"].enumerated() {
            let half = bench.receive(fromCaller(method, number + 1), on: caller)
            #expect(try #require(sentRequest(half)).frame.values(of: .route).map(\.string) == [tokens[0]])
            let whole = try throughPBX(half, 10 + number)
            #expect(whole.flows.last == callee)
            #expect(try #require(sentRequest(whole)).frame.values(of: .route).isEmpty)
        }
        let half = bench.receive(fromCallee("INFO", 20, routes: tokens), on: callee)
        #expect(try #require(sentRequest(half)).frame.values(of: .route).map(\.string) == [tokens[1]])
        #expect(try throughPBX(half, 20).flows.last == caller)
        // The call passes the daemon twice (a spiral), and only the PBX may use the dialog token of its second pass.
        let skipping = bench.receive(fromCallee("BYE", 21, routes: [tokens[1]]), on: callee)
        #expect(story(skipping) == ["403 bye > phone"])
        #expect(story(bench.receive(fromCaller("BYE", 22), on: callee)) == ["403 bye > phone"])
    }

    // MARK: The lifetime

    @Test func `it ends, unless traffic in its second half renews it (T20.5)`() throws {
        let idle = try Call(EngineBench())
        let hour: Duration = .seconds(3600)
        _ = idle.bench.pass(hour * 12 - .seconds(1))
        #expect(story(idle.bench.receive(idle.fromPBX("ACK", 1), on: EngineBench.pbxFlow)) == ["ack > phone"])
        _ = idle.bench.pass(.seconds(2))
        #expect(story(idle.bench.receive(idle.fromPBX("BYE", 3), on: EngineBench.pbxFlow)) == ["481 bye > pbx"])
        #expect(idle.bench.receive(idle.fromPBX("ACK", 1), on: EngineBench.pbxFlow).isEmpty)

        let busy = try Call(EngineBench())
        _ = busy.bench.pass(hour * 5)
        #expect(busy.bench.receive(busy.fromPBX("INFO", 4), on: EngineBench.pbxFlow).renewals.isEmpty)
        _ = busy.bench.pass(hour * 2)
        // A stranger's request does not extend the lifetime of the dialog.
        #expect(busy.bench.receive(busy.fromPBX("INFO", 5), on: EngineBench.stranger).renewals.isEmpty)
        let renewals = busy.bench.receive(busy.fromPBX("INFO", 6), on: EngineBench.pbxFlow).renewals
        #expect(renewals.map(\.until) == [busy.bench.now.date + hour * 12])
        #expect(busy.bench.receive(busy.fromPhone("INFO", 7), on: busy.phone).renewals.isEmpty)
        _ = busy.bench.pass(hour * 11)
        #expect(story(busy.bench.receive(busy.fromPhone("BYE", 8), on: busy.phone)) == ["bye > pbx"])

        // The next run of the daemon finds the extended lifetime of the dialog in its store.
        let later = EngineBench(seed: 2)
        _ = later.pass(hour * 18)
        #expect(story(later.receive(busy.fromPBX("BYE", 9), on: EngineBench.pbxFlow)) == ["481 bye > pbx"])
        for renewal in renewals { later.engine.restoreDialog(renewal.digest, until: renewal.until, now: later.now) }
        #expect(story(later.receive(busy.fromPBX("BYE", 10), on: EngineBench.pbxFlow)) == ["bye > phone"])
    }

    // MARK: The transport

    @Test(arguments: [nil, "sip:10.0.0.2:5060;transport=udp"])
    func `a large request goes to the PBX by TCP, with fallback, and to a phone unchanged`(upstream: String?) throws {
        let call = try Call(EngineBench { $0.upstream = upstream.flatMap { NextHop($0) } })
        let large = { (text: String) in
            text.replacing("\r\nCall-ID:", with: "\r\nSubject: \(String(repeating: "x", count: 1200))\r\nCall-ID:")
        }
        let sent = call.bench.receive(call.fromPhone("INVITE", 20, large)).flows
        let tcp = Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.pbx)
        #expect(sent.last == (upstream == nil ? tcp : EngineBench.pbxFlow))
        if upstream == nil {
            call.bench.engine.sendFailed(on: tcp, now: call.bench.now)
            #expect(call.bench.take().flows == [EngineBench.pbxFlow])
            #expect(call.bench.receive(call.fromPhone("INFO", 21, large)).flows == [EngineBench.pbxFlow])
        }
        let back = call.bench.receive(call.fromPBX("INFO", 5, large), on: EngineBench.pbxFlow).flows
        #expect(back == [EngineBench.udp(EngineBench.phone)])
    }

    @Test func `the transport counts that the PBX has written into its Contact, and the datagram when it is refused`()
        throws
    {
        let call = try Call(EngineBench())
        let named = { (text: String) in
            text.replacing("sip:103@10.0.0.2:5060 ", with: "sip:103@10.0.0.2:5060;transport=TCP ")
        }
        let tcp = Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.pbx)
        #expect(call.bench.receive(call.fromPhone("INFO", 20, named)).flows == [tcp])
        #expect(call.bench.receive(call.fromPhone("ACK", 20, named)).flows == [tcp])
        call.bench.engine.sendFailed(on: tcp, now: call.bench.now)
        #expect(call.bench.take().flows == [EngineBench.pbxFlow])
        #expect(call.bench.receive(call.fromPhone("ACK", 21, named)).flows == [EngineBench.pbxFlow])
    }

    @Test func `a PBX that came by TCP is answered by TCP, even if its Contact does not say so`() throws {
        let bench = EngineBench { $0.trusted = [TrustedPeer("10.0.0.0/24")].compactMap { $0 } }
        bench.register(token: nil, on: EngineBench.udp(EngineBench.phone))
        let trunk = Flow(
            transport: .tcp, listener: 1, connection: 9, remote: Endpoint(EngineBench.pbx.address, 40_123))
        let delivered = try #require(sentRequest(bench.receive(bench.inviteText(), on: trunk)))
        let rows =
            [
                "BYE sip:103@10.0.0.2:5060 SIP/2.0", "Via: SIP/2.0/UDP 192.0.2.5:40000;rport;branch=z9hG4bKbye",
                "From: <sip:bob@example.net>;tag=b",
                "To: \(delivered.frame.firstValue(of: .from)?.string ?? "")", "Call-ID: \(delivered.callID)",
                "CSeq: 5 BYE", "Max-Forwards: 70",
            ] + delivered.frame.values(of: .recordRoute).reversed().map { "Route: \($0)" }
        let sent = bench.receive(SIPText.bytes(rows), on: EngineBench.udp(EngineBench.phone)).flows
        #expect(sent == [Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.pbx)])
    }

    @Test func `no request goes to the daemon itself, wherever a phone seems to have moved`() throws {
        let call = try Call(EngineBench())
        call.bench.register(cseq: 3, on: EngineBench.udp(Endpoint(IPAddress(v4: 0x0a00_0001), 5060)))
        #expect(call.bench.receive(call.fromPBX("ACK", 1), on: EngineBench.pbxFlow).isEmpty)
        #expect(story(call.bench.receive(call.fromPBX("INFO"), on: EngineBench.pbxFlow)) == ["482 info > pbx"])
    }

    @Test func `a Route that asks for TLS is not followed without (T9.9)`() throws {
        let call = try Call(EngineBench())
        let secure: (String) -> String = {
            $0.replacing("Content-Length:", with: "Route: <sips:192.0.2.5;lr>\r\nContent-Length:")
        }
        let out = call.bench.receive(call.fromPBX("INFO", 2, secure), on: EngineBench.pbxFlow)
        #expect(story(out) == ["480 info > pbx"])
        #expect(try #require(out.texts.first).contains("\r\nWarning: 380 example.net \"SIPS Not Allowed\"\r\n"))
        #expect(call.bench.receive(call.fromPBX("ACK", 1, secure), on: EngineBench.pbxFlow).isEmpty)
    }

    @Test func `a second Route leads to trusted addresses, and never to the daemon itself`() throws {
        let call = try Call(EngineBench { $0.trusted = [TrustedPeer("10.0.0.0/24")].compactMap { $0 } })
        func go(_ number: Int, to place: String) -> [Flow] {
            call.bench.receive(
                call.fromPhone("INFO", number) {
                    $0.replacing("Content-Length:", with: "Route: <sip:\(place);lr>\r\nContent-Length:")
                },
                on: call.phone
            ).flows
        }
        #expect(go(70, to: "10.0.0.9:5060").map(\.remote.description) == ["10.0.0.9:5060"])
        #expect(go(74, to: "10.0.0.9:22").map(\.remote) == [EngineBench.pbx])
        #expect(go(71, to: "198.51.100.99:5060").map(\.remote) == [EngineBench.pbx])
        #expect(go(72, to: "x@10.0.0.1:5060").map(\.remote) == [EngineBench.pbx])
        #expect(go(73, to: "10.0.0.1:5060;maddr=10.0.0.1").map(\.remote) == [EngineBench.pbx])
    }
}

extension [ProxyAction] {
    fileprivate var renewals: [(digest: UInt64, until: UnixTime)] {
        flatMap { action -> [(digest: UInt64, until: UnixTime)] in
            guard case .record(let changes) = action else { return [] }
            return changes.compactMap { change in
                guard case .dialogRenewed(let digest, let until) = change else { return nil }
                return (digest, until)
            }
        }
    }
}
