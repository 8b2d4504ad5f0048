import ProxyPolicy
import Routing
import Addressing
import Bytes
import Testing
import TestSupport
import Timekeeping

@testable import ProxyCore

@Suite("Protected hops")
struct SecureHopTests {
    private static let phone = EngineBench.phone

    private func flow(_ transport: Transport, _ connection: UInt64, from remote: Endpoint = phone) -> Flow {
        Flow(transport: transport, listener: transport == .wss ? 3 : 2, connection: connection, remote: remote)
    }

    private func registerText(contact: String) -> [UInt8] {
        SIPText.register(
            user: "bob", from: Self.phone, transport: .tcp, callID: "r1", cseq: 1, branch: "r1",
            contact: contact)
    }

    private func registered(_ contact: String, on flow: Flow, _ change: (inout ProxySettings) -> Void = { _ in })
        -> EngineBench
    {
        let bench = EngineBench(hasTLS: true, change)
        let out = bench.receive(registerText(contact: contact), on: flow)
        #expect(story(out + bench.commitAll(in: out)) == ["commit", "200 register > phone"])
        return bench
    }

    /// The text and the flow of the INVITE that the actions send.
    private func invite(in actions: [ProxyAction]) -> (text: String, flow: Flow)? {
        for case .send(let bytes, let flow) in actions {
            let text = String(decoding: bytes, as: UTF8.self)
            if text.hasPrefix("INVITE ") { return (text, flow) }
        }
        return nil
    }

    @Test(arguments: [Transport.tls, .wss])
    func `a sips contact is accepted over protected transports, and called on them`(transport: Transport) throws {
        let flow = flow(transport, 7)
        let bench = registered("<sips:bob@192.0.2.5>", on: flow)
        let out = try #require(invite(in: bench.invite()))
        #expect(out.flow == flow)
        #expect(out.text.hasPrefix("INVITE sips:bob@192.0.2.5 "))
        #expect(
            out.text.contains(
                "\r\nVia: SIP/2.0/\(transport == .tls ? "TLS 10.0.0.1:5061" : "WSS 10.0.0.1:443");branch="))
        #expect(out.text.contains("Record-Route: <sips:"))
        let parameter = transport == .tls ? "tls" : "ws"
        #expect(out.text.contains(":\(transport == .tls ? 5061 : 443);transport=\(parameter);lr>"))
    }

    @Test func `an ended connection is not opened again by TLS, because phones have no certificate`() {
        let flow = flow(.tls, 7)
        let bench = registered("<sip:bob@192.0.2.5:5061;transport=tls>", on: flow)
        bench.engine.flowClosed(flow, now: bench.now)
        #expect(story(bench.invite()).last == "480 invite > pbx")
    }

    @Test func `a sips request is served if it came by TLS, and only goes to sips contacts`() {
        let secure = flow(.tls, 9, from: EngineBench.pbx)
        let request = { (bench: EngineBench) in
            bench.inviteText().replacing("INVITE sip:bob", with: "INVITE sips:bob")
        }
        let reachable = registered("<sips:bob@192.0.2.5>", on: flow(.tls, 7))
        #expect(invite(in: reachable.receive(request(reachable), on: secure))?.flow == flow(.tls, 7))
        let plain = registered("<sips:bob@192.0.2.5>", on: flow(.tls, 7))
        #expect(story(plain.receive(request(plain), from: EngineBench.pbx)) == ["480 invite > pbx"])
        let other = registered("<sip:bob@192.0.2.5>", on: flow(.tls, 7))
        #expect(story(other.receive(request(other), on: secure)).last?.hasPrefix("480 invite") == true)
    }

    @Test func `a sips request goes to no upstream that is reached without TLS`() {
        for (upstream, isServed) in [("sip:10.0.0.2:5060", false), ("sip:10.0.0.2;transport=tls", true)] {
            let bench = EngineBench(hasTLS: true) { $0.upstream = NextHop(upstream) }
            let out = bench.receive(
                bench.inviteText().replacing("INVITE sip:bob", with: "INVITE sips:bob"), on: flow(.tls, 7))
            #expect((invite(in: out)?.flow.transport == .tls) == isServed)
            #expect(isServed || story(out).last == "480 invite > phone")
        }
    }

    // MARK: Names in certificates

    @Test func `a peer is trusted by a name of its certificate, on that connection, as long as it lasts`() {
        let bench = EngineBench(hasTLS: true) {
            $0.trusted = [TrustedPeer("pbx.example.net")].compactMap { $0 }
        }
        let (peer, other) = (flow(.tls, 7), flow(.tls, 8))
        #expect(!bench.engine.isTrusted(peer))
        #expect(!bench.engine.namesProved(["other.example.net"], on: peer))
        #expect(bench.engine.namesProved(["x.example.net", "pbx.example.net"], on: peer))
        #expect(bench.engine.isTrusted(peer) && !bench.engine.isTrusted(other))
        // Neither an address alone nor a flow without a connection proves a server's name.
        #expect(
            !bench.engine.isTrusted(peer.on(connection: 0)) && !bench.engine.isTrusted(EngineBench.udp(peer.remote)))
        bench.engine.flowClosed(peer, now: bench.now)
        #expect(!bench.engine.isTrusted(peer))
    }

    @Test func `a name that is no longer trusted has no effect on a connection that has proved it`() {
        let bench = EngineBench(hasTLS: true) { $0.trusted = [.name("pbx.example.net")] }
        #expect(bench.engine.namesProved(["pbx.example.net"], on: flow(.tls, 7)))
        var changed = bench.engine.settings
        changed.trusted = []
        bench.engine.settingsChanged(changed, now: bench.now)
        #expect(!bench.engine.isTrusted(flow(.tls, 7)))
    }

    @Test func `a trusted entry is an address, a block, one port, or a name that cannot be mistaken for one of them`() {
        #expect(TrustedPeer("PBX.example.net") == .name("pbx.example.net"))
        for text in ["pbx", "10.0.0", "10.0.0.300", "10.0.0.1:99999", "pbx..net", "-", "pbx.example.net:5061", "*.net"]
        {
            #expect(TrustedPeer(text) == nil, "\(text)")
        }
    }

    // MARK: Names of servers

    @Test func `a resolved hop must prove its own name, wherever its requests go`() throws {
        let bench = EngineBench(hasTLS: true) { $0.upstream = NextHop("sip:pbx.example.org;transport=tls") }
        let asked = bench.receive(bench.inviteText())
        guard case .resolve(let hop, let ticket)? = asked.last else { throw Unexpected() }
        #expect(hop.transport == .tls)
        let place = Endpoint(IPAddress(v4: 0x0a00_0009), 5061)
        bench.engine.resolved(
            ticket, to: [ResolvedHop(transport: .tls, endpoint: place, server: ServerNumber(3))], now: bench.now)
        let out = try #require(invite(in: bench.engine.takeActions()))
        #expect(out.flow.server == ServerNumber(3) && out.flow.remote == place && out.flow.connection == 0)
    }

    private struct Unexpected: Error {}
}
