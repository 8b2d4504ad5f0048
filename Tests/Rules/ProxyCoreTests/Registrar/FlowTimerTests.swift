import Addressing
import ProxyCore
import ProxyPolicy
import Registration
import TestSupport
import Testing
import Timekeeping

/// Tests flows over UDP, on which bob's phone must give a sign of life every 120 seconds.
@Suite("Flow-Timer over UDP (RFC 5626 section 4.4)")
struct FlowTimerTests {
    private let bench: EngineBench

    init() {
        bench = EngineBench {
            $0.registrar.flowTimer = .seconds(120)
            // The phone rings without a push as long as its flow counts as alive.
            $0.call.skipPushWithin = .seconds(3600)
        }
    }

    private static func place(_ number: Int) -> Endpoint {
        Endpoint(EngineBench.phone.address, UInt16(40_000 + number))
    }

    @discardableResult
    private func register(
        _ number: Int, token: String? = nil, cseq: Int = 1, flowNumber: String? = nil, at place: Int? = nil
    ) -> [ProxyAction] {
        let push = token.map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        let source = Self.place(place ?? number)
        let text = SIPText.register(
            user: "bob", from: source, callID: "f\(number)", cseq: cseq, branch: "f\(number)x\(cseq)x\(place ?? 0)",
            contact: "<sip:bob@192.0.2.5:\(source.port)\(push)>;+sip.instance=\"<urn:x>\""
                + (flowNumber ?? ";reg-id=\(number)"), expires: 3600, extra: ["Supported: outbound"])
        let first = bench.receive(text, from: source)
        let all = first + bench.commitAll(in: first)
        _ = bench.pass(.seconds(1))
        return all
    }

    private func call(_ number: Int = 1) -> [String] {
        story(bench.invite(callID: "call\(number)", branch: "i\(number)")).filter { !$0.hasSuffix("pbx") }
    }

    private func keepAlive(_ number: Int) {
        bench.engine.flowAlive(EngineBench.udp(Self.place(number)), now: bench.now)
    }

    @Test func `calls avoid a silent flow until a message comes on the flow`() {
        register(1)
        register(2)
        _ = bench.pass(.seconds(100))
        keepAlive(1)
        // The flow counts as alive for 120 s and 10 s more, in case one keep-alive is lost.
        _ = bench.pass(.seconds(28))
        #expect(call(1) == ["invite > \(Self.place(2))"])
        _ = bench.pass(.seconds(2))
        #expect(call(2) == ["invite > \(Self.place(1))"])
        keepAlive(2)
        #expect(call(3) == ["invite > \(Self.place(2))"])
        keepAlive(1)
        _ = bench.pass(.seconds(132))
        keepAlive(1)
        #expect(call(4) == ["invite > \(Self.place(1))"])
    }

    @Test func `a phone whose only flow is silent is woken by a push`() {
        register(1, token: "tok1")
        _ = bench.pass(.seconds(100))
        keepAlive(1)
        _ = bench.pass(.seconds(125))
        #expect(call(1) == ["invite > \(Self.place(1))"])
        _ = bench.pass(.seconds(10))
        #expect(call(2).contains { $0.hasPrefix("push invite") })
    }

    @Test func `a request or a response is life as well, and so is a REGISTER`() {
        register(1, token: "tok1")
        for cseq in 2...4 {
            _ = bench.pass(.seconds(120))
            register(1, token: "tok1", cseq: cseq)
        }
        _ = bench.pass(.seconds(120))
        bench.receive(
            SIPText.bytes([
                "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/UDP \(Self.place(1));branch=z9hG4bKo",
                "From: <sip:bob@example.net>;tag=o", "To: <sip:example.net>", "Call-ID: o", "CSeq: 1 OPTIONS",
                "Max-Forwards: 70",
            ]), from: Self.place(1))
        _ = bench.pass(.seconds(120))
        #expect(call(1) == ["invite > \(Self.place(1))"])
    }

    @Test func `no sign of life is expected from a contact without a flow, or from one that has moved`() {
        register(1, token: "tok1", flowNumber: "")
        _ = bench.pass(.seconds(600))
        #expect(call(1) == ["invite > \(Self.place(1))"])
        register(2, token: "tok2")
        register(2, token: "tok2", cseq: 2, at: 3)
        for _ in 0..<3 {
            _ = bench.pass(.seconds(60))
            keepAlive(3)
        }
        #expect(call(2).contains("invite > \(Self.place(3))"))
    }

    @Test func `after a restart the time starts again`() {
        let rows = register(1, token: "tok1").flatMap { action -> [StoredBinding] in
            guard case .commit(let changes, _) = action else { return [] }
            return changes.compactMap { if case .binding(.upsert(let row)) = $0 { row } else { nil } }
        }
        let next = FlowTimerTests()
        for row in rows { #expect(next.bench.engine.restore(row, now: next.bench.now)) }
        next.bench.engine.restored(now: next.bench.now)
        _ = next.bench.pass(.seconds(120))
        #expect(next.call(1) == ["invite > \(Self.place(1))"])
        _ = next.bench.pass(.seconds(12))
        #expect(next.call(2).contains { $0.hasPrefix("push invite") })
    }

    @Test func `no sign of life is expected when the setting is removed`() {
        register(1, token: "tok1")
        bench.change { $0.registrar.flowTimer = .zero }
        _ = bench.pass(.seconds(600))
        #expect(call(1) == ["invite > \(Self.place(1))"])
    }
}
