import Addressing
import Bytes
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Bob's phone with several flows over TCP, each on a connection of its own (RFC 5626).
private final class FlowBench {
    let bench: EngineBench
    private let token: String?
    private var sequence = 1
    /// The intervals at which the engine expects signs of life on the phone's connections.
    private(set) var expectations: [Duration] = []
    /// The requests that the phone has received, in the order of their arrival.
    private(set) var received: [SIPRequest] = []

    init(token: String? = "tok1", flows: [Int] = [1, 2], _ change: (inout ProxySettings) -> Void = { _ in }) {
        self.token = token
        bench = EngineBench(change)
        for number in flows {
            register(number)
            _ = bench.pass(.seconds(1))
        }
    }

    /// A phone whose last sign of life was so long ago that it counts as asleep.
    static func asleep() -> FlowBench {
        let bench = FlowBench()
        _ = bench.bench.pass(.seconds(600))
        return bench
    }

    func flow(_ place: Int) -> Flow {
        Flow(
            transport: .tcp, listener: 1, connection: UInt64(place),
            remote: Endpoint(EngineBench.phone.address, UInt16(40_000 + place)))
    }

    /// Registers a flow of the phone on the connection `place`, which is by default the flow's own connection.
    @discardableResult
    func register(
        _ number: Int, at place: Int? = nil, expires: Int = 3600, token: String? = nil, extra: [String] = [],
        callID: String? = nil
    ) -> [String] {
        sequence += 1
        let flow = flow(place ?? number)
        let push = (token ?? self.token).map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        let instance = "+sip.instance=\"<urn:uuid:10000000-1111-2222-3333-444444444444>\""
        let text = SIPText.register(
            user: "bob", from: flow.remote, transport: .tcp, callID: callID ?? "flow\(number)", cseq: sequence,
            branch: "r\(sequence)", contact: "<sip:bob@192.0.2.5;transport=tcp\(push)>;\(instance);reg-id=\(number)",
            expires: expires, extra: ["Supported: outbound, gruu"] + extra)
        answers = []
        let first = bench.receive(text, on: flow)
        return said(first) + said(bench.commitAll(in: first))
    }

    /// The daemon's responses to the last REGISTER.
    private(set) var answers: [String] = []

    func call(_ number: Int = 1, extra: [String] = []) -> [String] {
        said(bench.invite(callID: "call\(number)", branch: "i\(number)", extra: extra))
    }

    func request(_ method: String, to uri: String = "sip:bob@example.net", _ number: Int = 1, more: [String] = [])
        -> [String]
    {
        said(
            bench.receive(
                SIPText.bytes(
                    [
                        "\(method) \(uri) SIP/2.0", "Via: SIP/2.0/UDP \(EngineBench.pbx);branch=z9hG4bKq\(number)",
                        "From: <sip:103@example.net>;tag=q", "To: <sip:bob@example.net>", "Call-ID: q\(number)",
                        "CSeq: 1 \(method)", "Max-Forwards: 70", "Contact: <sip:103@10.0.0.2>",
                    ] + more), from: EngineBench.pbx))
    }

    func answer(_ status: Status, at place: Int) -> [String] {
        guard let last = received.last else { return ["no request"] }
        return said(
            bench.receive(
                SIPText.response(status, to: last, tag: "b", contact: "sip:bob@192.0.2.5"), on: flow(place)))
    }

    func closed(_ place: Int) -> [String] {
        bench.engine.flowClosed(flow(place), now: bench.now)
        return said(bench.take())
    }

    func said(_ actions: [ProxyAction]) -> [String] {
        actions.compactMap { action in
            if case .expectLife(_, let pause) = action { expectations.append(pause) }
            guard case .send(let bytes, let flow) = action, flow.remote != EngineBench.pbx else {
                return story([action]).first { $0 != "commit" }
            }
            guard let request = readRequest(bytes) else {
                answers.append(String(decoding: bytes, as: UTF8.self))
                return nil
            }
            received.append(request)
            return "\(request.method) > \(flow.connection)"
        }
    }
}

@Suite("Calls to a phone with several flows (RFC 5626)")
struct OutboundTests {
    @Test func `the latest flow rings, and the next flow rings when the connection ends`() {
        let phone = FlowBench(token: nil)
        #expect(phone.call() == ["100 invite > pbx", "invite > 2"])
        #expect(phone.closed(2) == ["invite > 1"])
        #expect(phone.answer(180, at: 1) == ["180 invite > pbx"])
        #expect(phone.answer(200, at: 1) == ["200 invite > pbx"])
    }

    @Test func `a phone whose flows have all ended is asleep, and one push wakes the phone`() {
        let phone = FlowBench.asleep()
        #expect(phone.closed(1) + phone.closed(2) == [])
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1"])
        #expect(phone.register(1, at: 11).filter { $0.hasPrefix("invite") } == ["invite > 11"])
        // A move of the phone's second flow to a new address does not affect the call on the first flow.
        #expect(phone.register(2, at: 12) == [])
        #expect(phone.answer(200, at: 11) == ["200 invite > pbx"])
    }

    @Test(arguments: [1, 2])
    func `the flow that comes back first brings the call`(number: Int) {
        let phone = FlowBench.asleep()
        #expect(phone.call() == ["100 invite > pbx", "push invite tok1", "options > 2"])
        #expect(phone.register(number, at: 20).contains("invite > 20"))
    }

    @Test func `a phone that rings by one flow is not disturbed when it registers by another`() {
        let phone = FlowBench(token: nil)
        #expect(phone.call() == ["100 invite > pbx", "invite > 2"])
        #expect(phone.answer(180, at: 2) == ["180 invite > pbx"])
        #expect(phone.register(1) == [])
        #expect(phone.register(3) == [])
        // When the flow of the call moves to a new address, the call moves with the flow.
        #expect(phone.register(2, at: 9).contains("invite > 9"))
    }

    @Test func `after a silent flow the next flow is tried, and the silent flow is tried last from then on`() {
        let phone = FlowBench(token: nil)
        #expect(phone.call() == ["100 invite > pbx", "invite > 2"])
        #expect(phone.said(phone.bench.pass(.milliseconds(2900))).isEmpty)
        #expect(phone.said(phone.bench.pass(.milliseconds(200))).contains("invite > 1"))
        #expect(phone.answer(486, at: 1).contains("486 invite > pbx"))
        #expect(phone.call(2) == ["100 invite > pbx", "invite > 1"])
        phone.register(2)
        #expect(phone.call(3) == ["100 invite > pbx", "invite > 2"])
    }

    @Test func `a phone that rings on a slow flow gets a CANCEL there`() throws {
        let phone = FlowBench(token: nil)
        _ = phone.call()
        let slow = try #require(phone.received.last)
        #expect(phone.said(phone.bench.pass(.milliseconds(3100))).contains("invite > 1"))
        let rang = phone.bench.receive(SIPText.response(180, to: slow, tag: "b"), on: phone.flow(2))
        #expect(phone.said(rang) == ["cancel > 2"])
        #expect(phone.received.last?.via.branch == slow.via.branch)
    }

    @Test func `a flow on which the phone has answered keeps the call`() {
        let phone = FlowBench(token: nil)
        _ = phone.call()
        _ = phone.answer(100, at: 2)
        #expect(phone.said(phone.bench.pass(.seconds(20))).isEmpty)
    }

    @Test func `two flows that fail by turns are each tried once`() {
        let phone = FlowBench(token: nil)
        #expect(phone.request("OPTIONS") == ["options > 2"])
        #expect(phone.closed(2) == ["options > 1"])
        // The daemon tries the address in the phone's Contact last.
        #expect(phone.closed(1) == ["options > 0"])
    }

    @Test func `a message follows the phone's flows`() {
        let phone = FlowBench(token: nil)
        #expect(phone.request("MESSAGE") == ["message > 2"])
        #expect(phone.closed(2) == ["message > 1"])
        #expect(phone.answer(200, at: 1) == ["200 message > pbx"])
    }

    @Test(arguments: [2, 3])
    func `a message wakes no phone while another flow is tried, and one push follows the last one`(count: Int) {
        let phone = FlowBench(flows: Array(1...count))
        #expect(phone.request("MESSAGE") == ["message > \(count)"])
        for number in (1..<count).reversed() {
            #expect(phone.said(phone.bench.pass(.milliseconds(2500))).filter { $0 != "100 message > pbx" }.isEmpty)
            #expect(
                phone.said(phone.bench.pass(.milliseconds(500))).filter { $0 != "100 message > pbx" }
                    == ["message > \(number)"])
        }
        #expect(phone.said(phone.bench.pass(.milliseconds(2500))).filter { $0 != "100 message > pbx" }.isEmpty)
        #expect(phone.said(phone.bench.pass(.milliseconds(500))) == ["push NotifyTextMessage tok1"])
        #expect(phone.said(phone.bench.pass(.seconds(30))) == ["480 message > pbx"])
    }

    @Test func `a message that another flow brings needs no push`() {
        let phone = FlowBench()
        #expect(phone.request("MESSAGE") == ["message > 2"])
        #expect(phone.said(phone.bench.pass(.seconds(3))) == ["message > 1"])
        #expect(phone.answer(200, at: 1) == ["200 message > pbx"])
        #expect(phone.said(phone.bench.pass(.seconds(60))).isEmpty)
    }

    @Test func `with many silent flows the phone is woken while it has time to register`() {
        let phone = FlowBench(flows: Array(1...6))
        #expect(phone.request("MESSAGE") == ["message > 6"])
        let said = phone.said(phone.bench.pass(.seconds(10)))
        #expect(said.filter { $0.hasPrefix("push") } == ["push NotifyTextMessage tok1"])
        #expect(said.contains("message > 3") && !said.contains("message > 2"))
        #expect(phone.said(phone.bench.pass(.milliseconds(9900))).contains("message > 1"))
        #expect(phone.said(phone.bench.pass(.milliseconds(100))) == ["480 message > pbx"])
    }

    @Test func `a dialog continues on another flow when its own has ended`() throws {
        let phone = FlowBench(token: nil)
        _ = phone.call()
        let invite = try #require(phone.received.last)
        let out = phone.bench.receive(
            SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@192.0.2.5"), on: phone.flow(2))
        let answer = try #require(sentResponse(out))
        let sent = try #require(readRequest(phone.bench.inviteText(callID: "call1", branch: "i1")))
        func bye(_ number: Int) -> [UInt8] {
            SIPText.dialogRequest(
                "INFO", cseq: number, invite: sent, answer: answer, at: EngineBench.pbx, branch: "b\(number)")
        }
        phone.register(1)
        #expect(phone.said(phone.bench.receive(bye(2), from: EngineBench.pbx)) == ["info > 2"])
        _ = phone.closed(2)
        #expect(phone.said(phone.bench.receive(bye(3), from: EngineBench.pbx)) == ["info > 1"])
    }

    @Test(arguments: [nil, 1])
    func `a request inside a dialog wakes a phone only when all flows of the phone are silent`(alive: Int?)
        throws
    {
        let phone = FlowBench()
        _ = phone.call() + phone.register(2)
        let invite = try #require(phone.received.last)
        let out = phone.bench.receive(
            SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@192.0.2.5"), on: phone.flow(2))
        let answer = try #require(sentResponse(out))
        let sent = try #require(readRequest(phone.bench.inviteText(callID: "call1", branch: "i1")))
        func send(_ method: String, _ number: Int) -> [String] {
            let text = SIPText.dialogRequest(
                method, cseq: number, invite: sent, answer: answer, at: EngineBench.pbx, branch: "b\(number)")
            return phone.said(phone.bench.receive(text, from: EngineBench.pbx))
        }
        #expect(send("ACK", 1) == ["ack > 2"])
        #expect(send("INFO", 2) == ["info > 2"])
        #expect(phone.said(phone.bench.pass(.seconds(3))) == ["info > 1"])
        if let alive {
            #expect(phone.answer(200, at: alive) == ["200 info > pbx"])
            #expect(phone.said(phone.bench.pass(.seconds(60))).isEmpty)
        } else {
            #expect(phone.said(phone.bench.pass(.seconds(3))) == ["100 info > pbx", "push  tok1"])
            #expect(phone.register(1, at: 11).contains("info > 11"))
            #expect(phone.answer(200, at: 11) == ["200 info > pbx"])
        }
    }

    @Test func `the flow that shows life rings, whichever registered last`() {
        let phone = FlowBench(flows: [1, 2]) { $0.call.ringLiveFlowWithin = .seconds(60) }
        _ = phone.bench.pass(.seconds(600))
        phone.bench.engine.flowAlive(phone.flow(1), now: phone.bench.now)
        _ = phone.bench.take()
        #expect(phone.call().contains("invite > 1"))
    }

    @Test func `a connection is expected to give signs of life if its phone was told to`() {
        func orders(_ seconds: Int) -> [Duration] {
            let phone = FlowBench(flows: []) { $0.registrar.flowTimer = .seconds(seconds) }
            phone.register(1)
            return phone.expectations
        }
        #expect(orders(120) == [.seconds(120)])
        #expect(orders(0) == [])
    }

    // MARK: An edge

    private static let edge = Endpoint(IPAddress(v4: 0x0a00_0003), 5060)

    /// A bench with a phone behind two edge proxies, which write their flow tokens into Path.
    private func behindEdges(token: String?, _ numbers: [Int] = [1, 2]) -> EngineBench {
        let bench = EngineBench {
            $0.trusted += [TrustedPeer("10.0.0.3"), TrustedPeer("10.0.0.4")].compactMap { $0 }
            $0.call.skipPushWithin = .seconds(10)
        }
        for number in numbers { registerBehindEdge(bench, number, token: token) }
        return bench
    }

    @discardableResult
    private func registerBehindEdge(_ bench: EngineBench, _ number: Int, token: String?, cseq: Int = 1) -> [String] {
        let push = token.map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        _ = bench.pass(.seconds(1))
        let first = bench.receive(
            SIPText.register(
                user: "bob", from: Self.edge, callID: "e\(number)", cseq: cseq, branch: "e\(number)x\(cseq)",
                contact: "<sip:bob@192.0.2.5\(push)>;+sip.instance=\"<urn:x>\";reg-id=\(number)",
                extra: [
                    "Via: SIP/2.0/UDP 192.0.2.5;branch=z9hG4bKp\(number)x\(cseq)", "Supported: path, outbound",
                    "Path: <sip:t\(number)@10.0.0.\(2 + number):5060;lr;ob>",
                ]), from: Self.edge)
        return story(first + bench.commitAll(in: first))
    }

    /// Lets the edge proxy answer the last request that it received.
    private func edgeSays(_ status: Status, to actions: [ProxyAction], _ bench: EngineBench, from place: String)
        throws -> [ProxyAction]
    {
        let invite = try #require(sentRequest(actions))
        return bench.receive(
            SIPText.response(status, to: invite, tag: "edge"), from: try #require(Endpoint(place)))
    }

    @Test func `after an edge's 430 the next flow is tried, and without one the caller gets 480`() throws {
        let bench = behindEdges(token: nil)
        let called = bench.invite()
        #expect(story(called) == ["100 invite > pbx", "invite > 10.0.0.4:5060"])
        let second = try edgeSays(430, to: called, bench, from: "10.0.0.4:5060")
        #expect(story(second) == ["ack > 10.0.0.4:5060", "invite > 10.0.0.3:5060"])
        let last = try edgeSays(430, to: second, bench, from: "10.0.0.3:5060")
        #expect(story(last).sorted() == ["480 invite > pbx", "ack > 10.0.0.3:5060"])
    }

    @Test func `a phone that can be woken is asleep then, and gets a push`() throws {
        let bench = behindEdges(token: "tok1", [1])
        let called = bench.invite()
        #expect(story(called) == ["100 invite > pbx", "invite > 10.0.0.3:5060"])
        let asleep = try edgeSays(430, to: called, bench, from: "10.0.0.3:5060")
        #expect(story(asleep) == ["ack > 10.0.0.3:5060", "push invite tok1"])
        #expect(registerBehindEdge(bench, 1, token: "tok1", cseq: 2).contains("invite > 10.0.0.3:5060"))
    }

    @Test func `a phone's own 430 starts no try of the next flow`() {
        let phone = FlowBench(token: nil)
        _ = phone.call()
        #expect(phone.answer(430, at: 2).contains("430 invite > pbx"))
    }

    // MARK: The device and its number

    @Test func `requests that wait for the device outlive the flow whose number it has`() {
        let phone = FlowBench.asleep()
        _ = phone.call()
        #expect(phone.register(1, expires: 0) == [])
        #expect(phone.bench.targets.count == 1)
        #expect(phone.register(2, at: 22).contains("invite > 22"))
    }

    @Test func `missed calls do, too`() {
        let phone = FlowBench.asleep()
        _ = phone.call()
        #expect(phone.said(phone.bench.pass(.seconds(40))).contains("480 invite > pbx"))
        #expect(phone.register(1, expires: 0) == [])
        #expect(phone.register(2, at: 22).contains { $0.hasPrefix("push missed") })
    }

    @Test func `the last flow that signs out ends the device and the call`() {
        let phone = FlowBench.asleep()
        _ = phone.call()
        #expect(phone.register(1, expires: 0) == [])
        #expect(phone.register(2, expires: 0).contains("480 invite > pbx"))
    }

    @Test func `a dead token ends all flows that have it`() throws {
        let phone = FlowBench.asleep()
        let called = phone.bench.invite()
        let push = try #require(called.pushIDs.first)
        phone.bench.finish(push, .tokenDead(since: nil))
        #expect(phone.said(phone.bench.take()).contains("480 invite > pbx"))
        #expect(phone.bench.targets.isEmpty)
    }

    @Test func `a token that the provider replaces is replaced in all of them`() throws {
        let phone = FlowBench.asleep()
        let push = try #require(phone.bench.invite().pushIDs.first)
        phone.bench.finish(push, .acceptedWithNewToken(ByteString("tok9")))
        let bindings = phone.bench.engine.registrar.bindings.flows(
            of: try #require(phone.bench.targets.first).id, now: phone.bench.now.instant)
        #expect(
            bindings.map { phone.bench.engine.registrar.bindings.pushToken(of: $0)?.prid.string } == ["tok9", "tok9"])
    }
}

@Suite("Requests for one device (RFC 5627)")
struct GRUUTests {
    /// Finds the GRUUs in the response to the last REGISTER.
    private func gruus(_ phone: FlowBench) throws -> (public: String, temporary: String) {
        let answer = try #require(phone.answers.last)
        func value(_ name: String) -> String {
            answer.split(separator: "\(name)=\"").dropFirst().first?.split(separator: "\"").first.map(String.init) ?? ""
        }
        return (value("pub-gruu"), value("temp-gruu"))
    }

    @Test func `a phone that supports gruu gets two GRUUs that lead only to the phone`() throws {
        let phone = FlowBench(token: "tok1", flows: [])
        phone.bench.register(token: nil, callID: "other", from: Endpoint(EngineBench.phone.address, 999))
        phone.register(1)
        let gruus = try gruus(phone)
        #expect(gruus.public == "sip:bob@example.net;gr=urn:uuid:10000000-1111-2222-3333-444444444444")
        #expect(gruus.temporary.hasPrefix("sip:tgruu.") && gruus.temporary.hasSuffix("@example.net;gr"))
        #expect(!gruus.temporary.contains("bob"))
        #expect(phone.request("OPTIONS", to: "sip:bob@example.net", 1).count == 2)
        #expect(phone.request("OPTIONS", to: gruus.public, 2) == ["options > 1"])
        #expect(phone.request("OPTIONS", to: gruus.temporary, 3) == ["options > 1"])
        // The phone receives its own contact URI instead of the GRUU.
        #expect(phone.received.last?.uri.text.string == "sip:bob@192.0.2.5;transport=tcp")
        _ = phone.closed(1)
        #expect(phone.request("INVITE", to: gruus.temporary, 4) == ["100 invite > pbx", "push invite tok1"])
    }

    @Test func `a phone that does not support gruu gets no GRUU`() throws {
        let bench = EngineBench()
        let out = bench.register(extra: ["Supported: path"])
        #expect(out.texts.allSatisfy { !$0.contains("gruu") })
    }

    @Test func `a request to an unknown GRUU is refused`() throws {
        let phone = FlowBench(token: nil)
        #expect(phone.request("OPTIONS", to: "sip:bob@example.net;gr=urn:uuid:9", 1) == ["480 options > pbx"])
        #expect(phone.request("OPTIONS", to: "sip:nobody@example.net;gr=urn:uuid:9", 2) == ["404 options > pbx"])
        #expect(phone.request("OPTIONS", to: "sip:tgruu.AAAA@example.net;gr", 3) == ["404 options > pbx"])
        // The daemon must not accept a dialog token as a GRUU.
        _ = phone.call()
        let token = try #require(phone.received.last?.frame.firstValue(of: .recordRoute)?.string)
            .split(separator: ":")[1].split(separator: "@")[0]
        #expect(phone.request("OPTIONS", to: "sip:tgruu.\(token)@example.net;gr", 4) == ["404 options > pbx"])
    }

    @Test func `each 200 has a new temporary GRUU, and a new Call-ID invalidates the earlier GRUUs`() throws {
        let phone = FlowBench(token: nil, flows: [])
        var temporary: [String] = []
        for _ in 0..<20 {
            phone.register(1)
            temporary.append(try gruus(phone).temporary)
        }
        #expect(Set(temporary).count == 20)
        for (number, gruu) in temporary.enumerated() {
            #expect(phone.request("OPTIONS", to: gruu, number) == ["options > 1"])
        }
        phone.register(1, callID: "another")
        for (number, gruu) in temporary.enumerated() {
            #expect(phone.request("OPTIONS", to: gruu, 100 + number) == ["404 options > pbx"])
        }
        #expect(phone.request("OPTIONS", to: try gruus(phone).temporary, 200) == ["options > 1"])
    }

    @Test func `requests inside a dialog to a GRUU reach the phone at its contact`() throws {
        let phone = FlowBench(token: nil, flows: [1])
        let gruu = try gruus(phone).public
        _ = phone.call()
        let invite = try #require(phone.received.last)
        let answer = try #require(
            sentResponse(
                phone.bench.receive(SIPText.response(200, to: invite, tag: "b", contact: gruu), on: phone.flow(1))))
        let sent = try #require(readRequest(phone.bench.inviteText(callID: "call1", branch: "i1")))
        for method in ["ACK", "BYE"] {
            let text = SIPText.dialogRequest(
                method, cseq: 2, invite: sent, answer: answer, at: EngineBench.pbx, branch: "in\(method)")
            #expect(String(decoding: text, as: UTF8.self).hasPrefix("\(method) \(gruu) SIP/2.0"))
            #expect(phone.said(phone.bench.receive(text, from: EngineBench.pbx)) == ["\(method.lowercased()) > 1"])
            #expect(phone.received.last?.uri.text.string == "sip:bob@192.0.2.5;transport=tcp")
        }
    }
}
