import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

/// Bob's phone, by UDP or TCP, at one place and then at others.
private final class Bench {
    let bench: EngineBench
    private let transport: Transport
    private var registers = 0
    private(set) var place = 0

    init(_ transport: Transport = .udp, _ change: (inout ProxySettings) -> Void = { _ in }) {
        bench = EngineBench(change)
        self.transport = transport
    }

    func flow(_ place: Int) -> Flow {
        Flow(
            transport: transport, listener: transport == .udp ? 0 : 1,
            connection: transport == .udp ? 0 : UInt64(place + 1),
            remote: Endpoint(IPAddress(v4: 0xc000_0205), UInt16(40_000 + place)))
    }

    /// The phone registers from a place; also an ordinary one.
    @discardableResult
    func register(at place: Int = 0, token: String? = "tok1") -> [String] {
        self.place = place
        registers += 1
        let flow = flow(place)
        let push = token.map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        let text = SIPText.register(
            user: "bob", from: flow.remote, transport: transport, callID: "r\(registers)", cseq: 1,
            branch: "r\(registers)", contact: "<sip:bob@192.0.2.5\(push)>")
        let first = bench.receive(text, on: flow)
        return said(first + bench.commitAll(in: first)).filter { $0 != "commit" && !$0.hasPrefix("200 register") }
    }

    func call(extra: [String] = []) -> [String] { said(bench.invite(extra: extra)) }

    func keepAlive(at place: Int = 0) -> [String] {
        bench.engine.flowAlive(flow(place), now: bench.now)
        return said(bench.take())
    }

    func closed(_ place: Int = 0) -> [String] {
        bench.engine.flowClosed(flow(place), now: bench.now)
        return said(bench.take())
    }

    /// The phone answers an INVITE that it got at one place, by its flow at another.
    func answer(_ status: Status, to invite: SIPRequest?, at place: Int? = nil) -> [String] {
        guard let invite else { return ["no INVITE"] }
        return said(
            bench.receive(
                SIPText.response(status, to: invite, tag: "b", contact: "sip:bob@192.0.2.5"),
                on: flow(place ?? self.place)))
    }

    func give(_ outcome: PushOutcome) {
        guard let id = pushes.last else { return }
        bench.engine.pushNoted(id, .sent, now: bench.now)
        bench.engine.pushFinished(id, outcome: outcome, now: bench.now)
        _ = said(bench.take())
    }

    func pass(_ duration: Duration) -> [String] { said(bench.pass(duration)) }

    private(set) var pushes: [PushID] = []
    /// Those that the phone was sent, in their order.
    private(set) var invites: [SIPRequest] = []
    private(set) var cancels: [SIPRequest] = []

    func said(_ actions: [ProxyAction]) -> [String] {
        pushes += actions.pushIDs
        return actions.compactMap { action in
            guard case .send(let bytes, let flow) = action, flow.remote != EngineBench.pbx else {
                // That a connection has proved itself is another matter.
                return story([action]).first.flatMap { $0.hasPrefix("proved") ? nil : $0 }
            }
            let place = flow.remote.port == 5060 ? "contact" : "\(Int(flow.remote.port) - 40_000)"
            guard let request = readRequest(bytes) else {
                return story([action]).first?.replacing("phone", with: place)
            }
            if request.method == .invite, !invites.contains(where: { $0.via.branch == request.via.branch }) {
                invites.append(request)
            }
            if request.method == .cancel { cancels.append(request) }
            return "\(request.method) > \(place)"
        }
    }
}

@Suite("Phones that are awake")
struct AwakePhoneTests {
    @Test(arguments: [Transport.udp, .tcp])
    func `a keep-alive on the flow that it registered on lets the call out, once`(transport: Transport) {
        let phone = Bench(transport)
        phone.register()
        #expect(phone.keepAlive().isEmpty)
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1"])
        #expect(phone.keepAlive(at: 1).isEmpty)
        #expect(phone.keepAlive() == ["drop push", "invite > 0"])
        #expect(phone.keepAlive().isEmpty)
        // It registers there after all: it has the call.
        #expect(phone.register().isEmpty)
        #expect(phone.answer(180, to: phone.invites.first) == ["180 invite > pbx"])
        #expect(phone.answer(200, to: phone.invites.first) == ["200 invite > pbx"])
    }

    @Test func `any request and any response is a sign of life, but a REGISTER that is not accepted is none`() {
        for text in [
            SIPText.bytes([
                "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/UDP 192.0.2.5:40000;branch=z9hG4bKo",
                "From: <sip:bob@example.net>;tag=o", "To: <sip:example.net>", "Call-ID: o", "CSeq: 1 OPTIONS",
                "Max-Forwards: 70",
            ]),
            SIPText.bytes([
                "SIP/2.0 200 OK", "Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKlate",
                "From: <sip:x@example.net>;tag=o", "To: <sip:bob@example.net>;tag=p", "Call-ID: o", "CSeq: 1 MESSAGE",
            ]),
        ] {
            let phone = Bench()
            phone.register()
            _ = phone.call()
            #expect(phone.said(phone.bench.receive(text, on: phone.flow(0))).contains("invite > 0"))
        }
        let phone = Bench()
        phone.register()
        _ = phone.call()
        let refused = SIPText.register(
            user: "bob", from: phone.flow(0).remote, callID: "x", cseq: 1, branch: "x",
            contact: "<sip:bob@192.0.2.5;pn-provider=none;pn-prid=x>")
        #expect(phone.said(phone.bench.receive(refused, on: phone.flow(0))) == ["555 register > 0"])
    }

    @Test func `a flow that carries many phones says nothing of one`() {
        let bench = EngineBench { $0.trusted += [TrustedPeer("192.0.2.5")].compactMap { $0 } }
        bench.register()
        bench.invite()
        bench.engine.flowAlive(EngineBench.udp(EngineBench.phone), now: bench.now)
        #expect(bench.take().isEmpty)
    }

    @Test func `a connection that has ended is not tried: the phone is pushed`() {
        let phone = Bench(.tcp) { $0.call.skipPushWithin = .seconds(600) }
        phone.register()
        #expect(phone.closed().isEmpty)
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1"])
        #expect(phone.register(at: 1) == ["drop push", "invite > 1"])
    }

    @Test func `a flow that showed life lately gets the INVITE at once, and the push beside it`() {
        let phone = Bench { $0.call.ringLiveFlowWithin = .seconds(60) }
        phone.register()
        _ = phone.pass(.seconds(59))
        _ = phone.keepAlive()
        _ = phone.pass(.seconds(59))
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1", "invite > 0"])
        // It was awake, and registers there because of the push.
        #expect(phone.register().isEmpty)
        #expect(phone.answer(200, to: phone.invites.first) == ["200 invite > pbx", "drop push"])
    }

    @Test(arguments: [true, false])
    func `an INVITE that was lost on a flow thought alive is repeated when the phone is there`(registers: Bool) {
        let phone = Bench { $0.call.ringLiveFlowWithin = .seconds(60) }
        phone.register()
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1", "invite > 0"])
        phone.give(.accepted(nil))
        // After 0.5, 1.5, 3.5, 7.5 and 15.5 s; the next one would come when the caller has gone.
        #expect(phone.pass(.seconds(20)).count { $0 == "invite > 0" } == 5)
        #expect((registers ? phone.register() : phone.keepAlive()) == ["invite > 0"])
        #expect(phone.invites.count == 1, "the same one")
        #expect(phone.answer(180, to: phone.invites.first) == ["180 invite > pbx"])
        #expect(phone.register().isEmpty && phone.keepAlive().isEmpty)
        #expect(phone.answer(200, to: phone.invites.first) == ["200 invite > pbx"])
    }

    @Test func `one that did not is pushed, and gets the INVITE when it comes`() {
        let phone = Bench { $0.call.ringLiveFlowWithin = .seconds(60) }
        phone.register()
        _ = phone.pass(.seconds(61))
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1"])
    }

    @Test func `a flow that was thought alive is asleep, and the phone comes from elsewhere`() {
        let phone = Bench { $0.call.ringLiveFlowWithin = .seconds(60) }
        phone.register()
        _ = phone.call()
        phone.give(.accepted(nil))
        #expect(phone.register(at: 1) == ["invite > 1"])
        #expect(phone.answer(180, to: phone.invites.last) == ["180 invite > pbx"])
        // It would have been told at the old place, had that been heard of.
        #expect(phone.answer(180, to: phone.invites.first, at: 0) == ["cancel > 0"])
        #expect(phone.answer(487, to: phone.invites.first, at: 0) == ["ack > 0"])
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }
}

@Suite("Phones that move while they are called")
struct MovingPhoneTests {
    /// A phone that has the INVITE at its first place, pushed before, and has answered it with 180 if `rings`.
    private func called(_ transport: Transport = .udp, rings: Bool = true) -> Bench {
        let phone = Bench(transport)
        phone.register()
        _ = phone.call()
        phone.give(.accepted(nil))
        _ = phone.register()
        if rings { _ = phone.answer(180, to: phone.invites.first) }
        return phone
    }

    @Test(arguments: [Transport.udp, .tcp])
    func `one that rings and registers from elsewhere rings there, and no more where it was`(transport: Transport) {
        let phone = called(transport)
        #expect(phone.register(at: 1) == ["cancel > 0", "invite > 1"])
        #expect(phone.cancels.last?.frame.contains(.reason) == false)
        #expect(phone.answer(487, to: phone.invites.first, at: 0) == ["ack > 0"])
        #expect(phone.register(at: 1).isEmpty)
        #expect(phone.answer(180, to: phone.invites.last) == ["180 invite > pbx"])
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }

    @Test func `a phone that was not heard of is cancelled there when it is`() {
        let phone = called(rings: false)
        #expect(phone.register(at: 1) == ["invite > 1"])
        #expect(phone.answer(100, to: phone.invites.first, at: 0) == ["cancel > 0"])
    }

    @Test(arguments: [Status(code: 487), 482, 408, 503, 486])
    func `what the old place says in the end counts for nothing`(status: Status) {
        let phone = called()
        phone.register(at: 1)
        #expect(phone.answer(status, to: phone.invites.first, at: 0) == ["ack > 0"])
        #expect(phone.answer(486, to: phone.invites.last) == ["ack > 1", "486 invite > pbx"])
    }

    @Test func `a 2xx from the old place that crosses is the answer, and the new one is cancelled`() {
        let phone = called()
        phone.register(at: 1)
        _ = phone.answer(180, to: phone.invites.last)
        #expect(phone.answer(200, to: phone.invites.first, at: 0) == ["200 invite > pbx", "cancel > 1"])
        #expect(phone.cancels.last?.frame.contains(.reason) == false)
        #expect(phone.answer(487, to: phone.invites.last) == ["ack > 1"])
    }

    @Test(arguments: [true, false])
    func `a connection that breaks puts the call back to waiting; the caller hears nothing`(rings: Bool) {
        let phone = called(.tcp, rings: rings)
        #expect(phone.closed().isEmpty)
        // What rings by the dead connection is told by the new one.
        #expect(phone.register(at: 1) == (rings ? ["cancel > 1", "invite > 1"] : ["invite > 1"]))
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }

    @Test func `nobody comes back: the hold ends when it would have ended`() {
        let phone = called(.tcp)
        _ = phone.pass(.seconds(10))
        #expect(phone.closed().isEmpty)
        #expect(phone.pass(.seconds(19)).isEmpty)
        #expect(phone.pass(.seconds(2)).contains("480 invite > pbx"))
    }

    @Test func `a phone that rang for long has a little time to come back`() {
        let phone = called(.tcp)
        _ = phone.pass(.seconds(60))
        #expect(phone.closed().isEmpty)
        #expect(phone.pass(.seconds(9)).isEmpty)
        #expect(phone.register(at: 1).contains("invite > 1"))
    }

    @Test func `it is pushed when no push has left for it, and not twice`() {
        let phone = Bench(.tcp) { $0.call.skipPushWithin = .seconds(60) }
        phone.register()
        #expect(phone.call() == ["100 invite > pbx", "invite > 0"])
        #expect(phone.closed() == ["push invite tok1"])
        phone.give(.accepted(nil))
        #expect(phone.register(at: 1) == ["invite > 1"])
        #expect(phone.closed(1).isEmpty)
        #expect(phone.register(at: 2) == ["invite > 2"])
        // The same when the phone was there before the push had left.
        let early = Bench(.tcp)
        early.register()
        _ = early.call()
        _ = early.register()
        #expect(early.closed() == ["push invite tok1"])
        // A call that it did not hear of is a missed one.
        #expect(early.pass(.seconds(31)).contains("480 invite > pbx"))
        #expect(early.register(at: 1).contains("push missed 103 tok1"))
    }

    @Test func `an ordinary contact is waited for as well`() {
        let phone = Bench(.tcp)
        phone.register(token: nil)
        #expect(phone.call() == ["100 invite > pbx", "invite > 0"])
        _ = phone.answer(180, to: phone.invites.first)
        #expect(phone.closed().isEmpty)
        #expect(phone.register(at: 1, token: nil).contains("invite > 1"))
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }

    @Test func `an ordinary contact that had the INVITE when its connection ended answers that one`() {
        let phone = Bench(.tcp)
        phone.register(token: nil)
        _ = phone.call()
        // It may also listen at its Contact's port.
        #expect(phone.closed() == ["invite > contact"])
        #expect(phone.register(at: 1, token: nil).contains("invite > 1"))
        #expect(phone.answer(482, to: phone.invites.last) == ["ack > 1"])
        // It has it by the first of three, which is taken back as soon as that may be, and gets it again.
        #expect(phone.answer(180, to: phone.invites.first) == ["cancel > 1"])
        #expect(phone.answer(487, to: phone.invites.first) == ["ack > 1", "invite > 1"])
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }

    @Test func `an ordinary contact that answers the INVITE it had when its connection ended has the call`() {
        let phone = Bench(.tcp)
        phone.register(token: nil)
        _ = phone.call()
        _ = phone.closed()
        phone.register(at: 1, token: nil)
        #expect(phone.answer(200, to: phone.invites.first).first == "200 invite > pbx")
    }

    @Test func `what was read from a connection before it ended does no harm`() {
        let phone = Bench(.tcp)
        phone.register()
        _ = phone.pass(.seconds(60))
        _ = phone.call()
        _ = phone.closed()
        #expect(phone.keepAlive().isEmpty)
        #expect(phone.register(at: 1).contains("invite > 1"))
    }

    @Test func `a phone that says nothing is found where it registers`() {
        let phone = called(rings: false)
        #expect(phone.pass(.seconds(20)).allSatisfy { $0 == "invite > 0" })
        #expect(phone.register(at: 1) == ["invite > 1"])
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }

    @Test func `the caller gives up: the phone is told where it is`() throws {
        let phone = called()
        phone.register(at: 1)
        _ = phone.answer(180, to: phone.invites.last)
        let invite = try #require(readRequest(phone.bench.inviteText()))
        let cancel = SIPText.hopRequest("CANCEL", for: invite)
        #expect(phone.said(phone.bench.receive(cancel, from: EngineBench.pbx)) == ["200 cancel > pbx", "cancel > 1"])
        #expect(phone.answer(487, to: phone.invites.last) == ["ack > 1", "487 invite > pbx"])
    }

    @Test func `the caller gives up, and then the phone moves: the CANCEL follows it`() throws {
        let phone = called()
        let invite = try #require(readRequest(phone.bench.inviteText()))
        let cancel = SIPText.hopRequest("CANCEL", for: invite)
        #expect(phone.said(phone.bench.receive(cancel, from: EngineBench.pbx)) == ["200 cancel > pbx", "cancel > 0"])
        #expect(phone.register(at: 1) == ["cancel > 1"])
        #expect(phone.answer(487, to: phone.invites.first) == ["ack > 1", "487 invite > pbx"])
    }

    @Test func `the caller gives up while a phone that rings has lost its connection: it hears of it when it is back`()
        throws
    {
        let phone = called(.tcp)
        _ = phone.closed()
        let invite = try #require(readRequest(phone.bench.inviteText()))
        let cancel = SIPText.hopRequest("CANCEL", for: invite, extra: ["Reason: SIP;cause=200"])
        #expect(
            phone.said(phone.bench.receive(cancel, from: EngineBench.pbx)) == ["200 cancel > pbx", "487 invite > pbx"])
        #expect(phone.register(at: 1) == ["cancel > 1"])
        #expect(phone.cancels.last?.frame.contains(.reason) == true)
    }

    // MARK: The phone met the INVITE twice

    @Test func `a 482 ends nothing: what the phone met first is taken back, and the INVITE comes again`() {
        let phone = called()
        #expect(phone.register(at: 1) == ["cancel > 0", "invite > 1"])
        // The CANCEL was lost with the old place: it goes to the new one.
        #expect(phone.answer(482, to: phone.invites.last) == ["ack > 1", "cancel > 1"])
        #expect(phone.answer(487, to: phone.invites.first) == ["ack > 1", "invite > 1"])
        #expect(phone.answer(200, to: phone.invites.last) == ["200 invite > pbx"])
    }

    @Test func `the phone may still answer what it met first`() {
        let phone = called()
        phone.register(at: 1)
        _ = phone.answer(482, to: phone.invites.last)
        #expect(phone.answer(200, to: phone.invites.first) == ["200 invite > pbx"])
    }

    @Test func `when that is over already, the INVITE comes again at once; not for ever`() {
        let phone = called()
        phone.register(at: 1)
        _ = phone.answer(487, to: phone.invites.first, at: 0)
        for _ in 0..<3 {
            #expect(phone.answer(482, to: phone.invites.last) == ["ack > 1", "invite > 1"])
        }
        #expect(phone.answer(482, to: phone.invites.last) == ["ack > 1", "482 invite > pbx"])
    }

    @Test func `a 482 of a phone that has not moved is its answer`() {
        let phone = called()
        #expect(phone.answer(482, to: phone.invites.last) == ["ack > 0", "482 invite > pbx"])
    }
}

@Suite("Calls that were answered elsewhere")
struct AnsweredElsewhereTests {
    @Test(arguments: [
        (["Reason: SIP;cause=200;text=\"Call completed elsewhere\""], true),
        (["Reason: Q.850;cause=26"], true),
        (["Reason: Q.850 ; cause=16 , sip ;text=\"a, SIP;cause=486\"; cause=200"], true),
        (["Reason: Q.850;cause=16", "Reason: SIP;cause=200"], true),
        (["Reason: SIP;cause=487"], false), (["Reason: Q.850;cause=200"], false), (["Reason: SIP;cause=26"], false),
        (["Reason: SIP;text=\"x;cause=200\""], false), (["Reason: SIP"], false), ([], false),
    ])
    func `a CANCEL that says so makes no missed call`(reasons: [String], isAnswered: Bool) throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let invite = try #require(readRequest(bench.inviteText()))
        let cancel = SIPText.hopRequest("CANCEL", for: invite, extra: reasons)
        #expect(story(bench.receive(cancel, from: EngineBench.pbx)).contains("487 invite > pbx"))
        #expect(story(bench.register(cseq: 2)).contains("push missed 103 tok1") == !isAnswered)
    }

    @Test func `the phone that rings hears it in words that it knows`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let sent = try #require(sentRequest(bench.register(cseq: 2)))
        bench.receive(SIPText.response(180, to: sent, tag: "b"))
        let invite = try #require(readRequest(bench.inviteText()))
        let cancel = SIPText.hopRequest("CANCEL", for: invite, extra: ["Reason: Q.850;cause=26"])
        let told = try #require(sentRequest(bench.receive(cancel, from: EngineBench.pbx)))
        #expect(
            told.frame.values(of: .reason).map(\.string)
                == ["SIP;cause=200;text=\"Call completed elsewhere\"", "Q.850;cause=26"])
    }
}
