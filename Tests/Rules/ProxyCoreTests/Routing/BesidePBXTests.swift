import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Routing
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// Tests the traffic that a PBX gets from this proxy (T33).
@Suite("Beside a PBX")
struct BesidePBXTests {
    private static let second = Endpoint(IPAddress(v4: 0x0a00_0003), 5060)
    private static let tcp = Flow(transport: .tcp, listener: 1, connection: 0, remote: EngineBench.pbx)

    private func large(_ bench: EngineBench, _ number: Int = 1) -> [UInt8] {
        bench.inviteText(callID: "big\(number)", branch: "big\(number)")
            .replacing("\r\nCall-ID:", with: "\r\nSubject: \(String(repeating: "x", count: 1200))\r\nCall-ID:")
    }

    private func respond(_ bench: EngineBench, _ code: Status, to sent: SIPRequest, on flow: Flow) -> [ProxyAction] {
        bench.receive(SIPText.response(code, to: sent, tag: "x"), on: flow)
    }

    // MARK: T33.1

    private static func identity(_ places: [(Transport, String)]) -> LocalIdentity {
        LocalIdentity(
            listeners: places.enumerated().map { index, place in
                let endpoint = Endpoint(place.1) ?? Endpoint(.anyV4, 0)
                return Listener(
                    number: UInt16(index), transport: place.0, bound: endpoint, sentBy: ByteString("\(endpoint)"))
            },
            domains: [])
    }

    @Test func `a request leaves from the address that its caller has used, on any transport`() {
        let identity = Self.identity([
            (.udp, "127.0.0.1:5060"), (.tcp, "127.0.0.1:5060"), (.udp, "192.0.2.20:5060"), (.tcp, "192.0.2.20:5060"),
            (.udp, "192.0.2.21:5060"), (.tcp, "192.0.2.21:5060"),
        ])
        func listener(_ remote: String, after wished: UInt16?) -> UInt16? {
            IPAddress(remote).flatMap { identity.listener(for: .tcp, to: $0, preferring: wished)?.number }
        }
        #expect(listener("192.0.2.10", after: 4) == 5)
        #expect(listener("192.0.2.10", after: 5) == 5)
        #expect(listener("192.0.2.10", after: 2) == 3)
        #expect(listener("192.0.2.10", after: nil) == 3)
        // The daemon does not choose the listener on the loopback address, because a loopback address reaches only this
        // machine.
        #expect(listener("192.0.2.10", after: 0) == 3)
        #expect(listener("127.0.0.9", after: 0) == 1)
    }

    // MARK: T33.2

    @Test(arguments: [[503], [100, 503], [183, 503], [100, 180, 503]])
    func `a 503 that comes by TCP ends the call`(codes: [Status]) throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        let sent = try #require(sentRequest(bench.receive(large(bench))))
        let told = codes.flatMap { story(respond(bench, $0, to: sent, on: Self.tcp)) }
        #expect(!told.contains { $0.hasPrefix("invite > ") })
        #expect(told.last == "500 invite > phone")
    }

    @Test func `silence after a connection was made ends the call, too`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060") }
        _ = bench.receive(large(bench))
        let told = story(bench.pass(.seconds(33)))
        #expect(told.first == "408 invite > phone")
        #expect(!told.contains { $0.hasPrefix("invite > ") })
    }

    @Test(arguments: [([503], true), ([100, 503], true), ([183, 503], false)])
    func `another server gets a call that was answered 503, unless it rang`(codes: [Status], goesOn: Bool) throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:pbx.example.org") }
        guard case .resolve(_, let ticket) = try #require(bench.receive(bench.inviteText()).last) else { return }
        let hops = [
            ResolvedHop(transport: .udp, endpoint: EngineBench.pbx),
            ResolvedHop(transport: .tcp, endpoint: EngineBench.pbx),
            ResolvedHop(transport: .udp, endpoint: Self.second),
        ]
        bench.engine.resolved(ticket, to: hops, now: bench.now)
        let sent = try #require(sentRequest(bench.take()))
        let told = codes.flatMap { story(respond(bench, $0, to: sent, on: EngineBench.udp(EngineBench.pbx))) }
        // The daemon does not repeat the call over TCP to a server that has already answered.
        #expect(told.contains("invite > 10.0.0.3:5060") == goesOn)
        #expect(told.filter { $0.hasPrefix("invite > ") }.count == (goesOn ? 1 : 0))
    }

    @Test func `a phone that answers 503 rings once`() throws {
        let bench = EngineBench()
        let phone = Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone)
        let text = SIPText.register(
            user: "bob", from: EngineBench.phone, transport: .tcp, callID: "r1", cseq: 1, branch: "r1",
            contact: "<sip:bob@192.0.2.5:5099;transport=tcp>")
        _ = bench.commitAll(in: bench.receive(text, on: phone))
        let sent = try #require(sentRequest(bench.invite()))
        #expect(story(respond(bench, 503, to: sent, on: phone)) == ["ack > phone", "500 invite > pbx"])
    }
}
