import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// A bench with bob's phone, which has a push token and is in a call with the PBX.
private final class TalkBench {
    let bench: EngineBench
    private let transport: Transport
    private var sequence = 1
    let invite: SIPRequest
    let answer: SIPResponse
    private(set) var received: [SIPRequest] = []
    /// The Retry-After field of the last response to the PBX.
    private(set) var retryAfter: String?

    init(_ transport: Transport = .tcp, _ change: (inout ProxySettings) -> Void = { _ in }) throws {
        self.transport = transport
        bench = EngineBench(change)
        let sent = bench.inviteText()
        invite = try #require(readRequest(sent))
        let flow = Self.flow(transport, 1)
        let first = bench.receive(Self.register(transport, 1, 1), on: flow)
        _ = bench.commitAll(in: first)
        let push = try #require(bench.receive(sent, from: EngineBench.pbx).pushIDs.first)
        bench.finish(push)
        let woken = bench.receive(Self.register(transport, 1, 2), on: flow)
        let delivered = try #require(sentRequest(woken + bench.commitAll(in: woken)))
        answer = try #require(
            sentResponse(
                bench.receive(
                    SIPText.response(200, to: delivered, tag: "b", contact: "sip:bob@192.0.2.5;transport=tcp"), on: flow
                )))
        sequence = 2
        _ = bench.receive(
            SIPText.dialogRequest("ACK", cseq: 1, invite: invite, answer: answer, at: EngineBench.pbx, branch: "ack"),
            from: EngineBench.pbx)
        received = []
    }

    static func flow(_ transport: Transport, _ place: Int) -> Flow {
        Flow(
            transport: transport, listener: transport == .udp ? 0 : 1,
            connection: transport == .udp ? 0 : UInt64(place),
            remote: Endpoint(EngineBench.phone.address, UInt16(40_000 + place)))
    }

    private static func register(_ transport: Transport, _ place: Int, _ cseq: Int) -> [UInt8] {
        SIPText.register(
            user: "bob", from: flow(transport, place).remote, transport: transport, callID: "r\(place)", cseq: cseq,
            branch: "r\(place)x\(cseq)", contact: "<sip:bob@192.0.2.5;pn-provider=fcm;pn-param=p;pn-prid=tok1>")
    }

    func register(at place: Int) -> [String] {
        sequence += 1
        let first = bench.receive(Self.register(transport, place, sequence), on: Self.flow(transport, place))
        return said(first) + said(bench.commitAll(in: first))
    }

    func closed(_ place: Int) -> [String] {
        bench.engine.flowClosed(Self.flow(transport, place), now: bench.now)
        return said(bench.take())
    }

    /// Lets the PBX send a request inside the call.
    func send(_ method: String, _ number: Int = 2) -> [String] {
        said(bench.receive(text(method, number), from: EngineBench.pbx))
    }

    private func text(_ method: String, _ number: Int) -> [UInt8] {
        SIPText.dialogRequest(
            method, cseq: number, invite: invite, answer: answer, at: EngineBench.pbx, branch: "p\(method)\(number)")
    }

    func cancel(_ number: Int) throws -> [String] {
        let request = try #require(readRequest(text("INVITE", number)))
        return said(bench.receive(SIPText.hopRequest("CANCEL", for: request), from: EngineBench.pbx))
    }

    func answers(_ status: Status, at place: Int, _ index: Int? = nil) -> [String] {
        guard let last = index.map({ received[$0] }) ?? received.last else { return ["no request"] }
        return said(
            bench.receive(SIPText.response(status, to: last, tag: "b"), on: Self.flow(transport, place)))
    }

    func pass(_ duration: Duration) -> [String] { said(bench.pass(duration)) }

    private func said(_ actions: [ProxyAction]) -> [String] {
        actions.compactMap { action in
            guard case .send(let bytes, let flow) = action, flow.remote != EngineBench.pbx else {
                if case .send(let bytes, _) = action {
                    retryAfter = SIPText.readResponse(bytes)?.frame.firstValue(of: .retryAfter)?.string
                }
                if case .push(let transmission) = action,
                    case .notification(let notification) = transmission.push.message
                {
                    return notification.isSilent ? "silent push \(notification.destinationContent)" : "push"
                }
                return story([action]).first { $0 != "commit" }
            }
            guard let request = readRequest(bytes) else { return nil }
            received.append(request)
            return "\(request.method) > \(Int(flow.remote.port) - 40_000)"
        }
    }
}

@Suite("Phones that fall asleep inside a call (RFC 8599 section 6)")
struct DialogWakeTests {
    @Test(arguments: ["BYE", "REFER", "UPDATE", "INFO", "INVITE"])
    func `a request wakes the sleeping phone and reaches the phone`(method: String) throws {
        let talk = try TalkBench()
        #expect(talk.closed(1) == [])
        let waits = talk.send(method)
        #expect(waits == (method == "INVITE" ? ["100 invite > pbx"] : []) + ["silent push call1"])
        #expect(talk.register(at: 2) == ["\(method.lowercased()) > 2"])
        #expect(talk.answers(200, at: 2) == ["200 \(method.lowercased()) > pbx"])
        #expect(talk.received.last?.frame.contains(.route) == false)
        // The REGISTER causes no message of the daemon, because no request waits for the phone any more.
        #expect(talk.register(at: 3) == [])
        #expect(talk.pass(.seconds(60)).isEmpty)
    }

    @Test func `a reachable phone gets the request at once, without a push`() throws {
        let talk = try TalkBench()
        #expect(talk.send("INFO") == ["info > 1"])
        #expect(talk.answers(200, at: 1) == ["200 info > pbx"])
        #expect(talk.pass(.seconds(40)).isEmpty)
    }

    @Test func `a phone that is silent for three seconds is woken, and gets the request on its new flow`() throws {
        let talk = try TalkBench(.udp)
        #expect(talk.send("BYE") == ["bye > 1"])
        #expect(talk.pass(.milliseconds(2900)).allSatisfy { $0 == "bye > 1" })
        #expect(talk.pass(.milliseconds(200)).contains("silent push call1"))
        #expect(talk.register(at: 2).contains("bye > 2"))
        #expect(talk.answers(200, at: 2) == ["200 bye > pbx"])
        #expect(talk.pass(.seconds(60)).filter { $0.contains("push") || $0.contains("pbx") } == [])
    }

    @Test func `a phone that comes back at the same address gets it again at once`() throws {
        let talk = try TalkBench(.udp)
        _ = talk.send("BYE")
        #expect(talk.pass(.milliseconds(3100)).contains("silent push call1"))
        #expect(talk.register(at: 1).contains("bye > 1"))
        #expect(talk.answers(200, at: 1) == ["200 bye > pbx"])
    }

    @Test func `a connection that ends under a request brings it back to waiting`() throws {
        let talk = try TalkBench()
        #expect(talk.send("BYE") == ["bye > 1"])
        #expect(talk.closed(1) == ["silent push call1"])
        #expect(talk.register(at: 2) == ["bye > 2"])
        #expect(talk.answers(200, at: 2) == ["200 bye > pbx"])
    }

    @Test func `several requests wake the phone once and reach it in their order`() throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        #expect(talk.send("INFO", 2) == ["silent push call1"])
        #expect(talk.send("INFO", 3) == [])
        #expect(talk.send("BYE", 4) == [])
        #expect(talk.register(at: 2) == ["info > 2", "info > 2", "bye > 2"])
        #expect(talk.received.map(\.cseq.number) == [2, 3, 4])
    }

    /// A request other than BYE must not get 480, because a 480 would end the whole call (RFC 5057). A BYE can get 480,
    /// because it ends its dialog in any case.
    @Test(arguments: [("BYE", "480"), ("INFO", "500"), ("UPDATE", "500"), ("REFER", "500")])
    func `a request for a phone that stays away gets one timely response that ends no call (T27.4)`(
        method: String, status: String
    ) throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        _ = talk.send(method)
        #expect(talk.pass(.seconds(19)) == ["100 \(method.lowercased()) > pbx"])
        #expect(talk.pass(.seconds(2)) == ["\(status) \(method.lowercased()) > pbx"])
        #expect(talk.retryAfter == (status == "500" ? "10" : nil))
        #expect(talk.register(at: 2) == [])
    }

    @Test func `a re-INVITE for a phone that stays away gets 500, and the call continues (T27.4)`() throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        _ = talk.send("INVITE")
        #expect(talk.pass(.seconds(29)) == [])
        #expect(talk.pass(.seconds(2)).first == "500 invite > pbx")
        #expect(talk.retryAfter == "10")
        _ = talk.register(at: 2)
        #expect(talk.send("INFO", 3) == ["info > 2"])
    }

    @Test func `a phone on UDP that was woken for a re-INVITE and stays silent is 500 (T27.4)`() throws {
        let talk = try TalkBench(.udp)
        _ = talk.send("INVITE")
        #expect(talk.pass(.seconds(40)).contains("500 invite > pbx"))
        #expect(talk.retryAfter == "10")
    }

    @Test func `the phone's own answer is forwarded unchanged`() throws {
        let talk = try TalkBench()
        _ = talk.send("INFO")
        #expect(talk.answers(480, at: 1) == ["480 info > pbx"])
    }

    @Test func `a cancelled re-INVITE is 487, and the phone does not get it`() throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        _ = talk.send("INVITE")
        #expect(try talk.cancel(2).sorted() == ["200 cancel > pbx", "487 invite > pbx"])
        #expect(talk.register(at: 2) == [])
    }

    @Test func `a phone that signs out, or is withdrawn, ends the wait`() throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        _ = talk.send("BYE")
        let out = talk.bench.receive(
            SIPText.register(
                user: "bob", from: TalkBench.flow(.tcp, 2).remote, transport: .tcp, callID: "out", cseq: 1,
                branch: "out",
                contact: "*", expires: 0), on: TalkBench.flow(.tcp, 2))
        #expect(story(out + talk.bench.commitAll(in: out)).contains("480 bye > pbx"))
    }

    @Test func `waiting requests and their pushes have limits`() throws {
        let talk = try TalkBench {
            $0.notificationsPerDevice = 1
            $0.limits.callerShare = 100
        }
        _ = talk.closed(1)
        for number in 2...17 { #expect(talk.send("INFO", number) == (number == 2 ? ["silent push call1"] : [])) }
        #expect(talk.send("INFO", 18) == ["503 info > pbx"])
        _ = talk.pass(.seconds(21))
        // The BYE waits, and the phone gets no push, because the device has used up its pushes for the present minute.
        #expect(talk.send("BYE", 19) == [])
    }

    @Test func `one side of a dialog leaves room for others, and a BYE always has room`() throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        for number in 2...9 { #expect(talk.send("INFO", number) == (number == 2 ? ["silent push call1"] : [])) }
        #expect(talk.send("INFO", 10) == ["503 info > pbx"])
        #expect(talk.send("BYE", 11) == [])
        // The daemon holds only one BYE of each dialog for a sleeping phone.
        #expect(talk.send("BYE", 12) == ["500 bye > pbx"])
        #expect(talk.register(at: 2).filter { $0.hasPrefix("bye") }.count == 1)
    }

    @Test func `an ACK wakes no phone, and with the setting off no request does`() throws {
        let talk = try TalkBench()
        _ = talk.closed(1)
        #expect(talk.send("ACK", 1) == [])
        let off = try TalkBench { $0.call.wakesInDialogs = false }
        _ = off.closed(1)
        #expect(off.send("BYE") == ["480 bye > pbx"])
    }
}
