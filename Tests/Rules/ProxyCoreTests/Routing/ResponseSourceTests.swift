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

@Suite("Sources of valid responses (T9.20)")
struct ResponseSourceTests {
    private static let stranger = Endpoint(IPAddress(v4: 0xc633_6407), 5060)
    private static let beside = Endpoint(EngineBench.phone.address, 40_001)

    /// A bench on which bob's phone has received an INVITE from the PBX.
    private func ringing(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> (EngineBench, SIPRequest) {
        let bench = EngineBench.registered(change)
        bench.invite()
        return (bench, try #require(sentRequest(bench.register(cseq: 2))))
    }

    private func answer(_ invite: SIPRequest, _ status: UInt16 = 200) -> [UInt8] {
        SIPText.response(Status(code: status), to: invite, tag: "b", contact: "sip:bob@192.0.2.5")
    }

    private func refused(_ bench: EngineBench) -> UInt64 { bench.engine.counters[.rejectedStrayed] }

    @Test func `a phone answers from the target of its request, and no other source can`() throws {
        for (number, source) in [Self.stranger, Self.beside, EngineBench.pbx].enumerated() {
            let (bench, invite) = try ringing()
            for status: UInt16 in [180, 200, 486, 603] {
                #expect(story(bench.receive(answer(invite, status), from: source)) == [], "\(source) \(number)")
            }
            #expect(refused(bench) == 4)
            #expect(story(bench.receive(answer(invite))).contains("200 invite > pbx"))
        }
    }

    @Test func `a phone that has moved answers from where it is registered now`() throws {
        let (bench, invite) = try ringing()
        let moved = Endpoint(IPAddress(v4: 0xc000_0299), 41_000)
        #expect(story(bench.receive(answer(invite), from: moved)) == [])
        bench.register(cseq: 3, from: moved)
        #expect(story(bench.receive(answer(invite), from: moved)).contains("200 invite > pbx"))
        #expect(refused(bench) == 1)
    }

    @Test func `another user's registered phone cannot answer`() throws {
        let (bench, invite) = try ringing()
        bench.register(user: "eve", token: "tok-eve", callID: "r-eve", from: Self.stranger)
        #expect(story(bench.receive(answer(invite), from: Self.stranger)) == [])
    }

    @Test func `the connection counts, and not its address`() throws {
        let bench = EngineBench()
        let phone = Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone)
        _ = bench.commitAll(in: bench.receive(bench.registerText(), on: phone))
        bench.invite()
        let again = bench.receive(bench.registerText(cseq: 2), on: phone)
        let invite = try #require(sentRequest(again + bench.commitAll(in: again)))
        #expect(story(bench.receive(answer(invite), on: phone.on(connection: 8))) == [])
        #expect(story(bench.receive(answer(invite), from: EngineBench.phone)) == [])
        #expect(story(bench.receive(answer(invite), on: phone)).contains("200 invite > pbx"))
    }

    /// A bench on which an INVITE from bob's phone has reached the PBX.
    private func upstream(_ change: (inout ProxySettings) -> Void = { _ in }) throws -> (EngineBench, SIPRequest) {
        let bench = EngineBench.registered(token: nil) {
            $0.authenticates = false
            $0.upstream = NextHop("sip:10.0.0.2:5060")
            change(&$0)
        }
        return (bench, try #require(sentRequest(bench.receive(bench.phoneText(to: "sip:900@example.net")))))
    }

    @Test func `a PBX may answer from another of its ports, and on a connection that it opens`() throws {
        let other = Endpoint(EngineBench.pbx.address, 5080)
        let opened = Flow(transport: .tcp, listener: 1, connection: 9, remote: other)
        for flow in [EngineBench.udp(other), opened] {
            let (bench, invite) = try upstream()
            #expect(story(bench.receive(answer(invite, 486), from: Self.stranger)).allSatisfy { !$0.hasPrefix("486") })
            #expect(story(bench.receive(answer(invite, 486), on: flow)).contains { $0.hasPrefix("486 invite") })
        }
    }

    @Test func `a PBX that shares its address with phones answers from its port alone`() throws {
        let (bench, invite) = try upstream { $0.trusted = [.endpoint(EngineBench.pbx)] }
        let beside = Endpoint(EngineBench.pbx.address, 5080)
        #expect(story(bench.receive(answer(invite, 486), from: beside)).allSatisfy { !$0.hasPrefix("486") })
        #expect(
            story(bench.receive(answer(invite, 486), from: EngineBench.pbx)).contains { $0.hasPrefix("486 invite") })
    }
}
