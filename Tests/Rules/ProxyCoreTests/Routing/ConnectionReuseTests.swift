import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import TestSupport
import Testing

@Suite("Connections that peers let us use (RFC 5923)")
struct ConnectionReuseTests {
    private func options(from source: Endpoint, _ via: String) -> [UInt8] {
        SIPText.bytes([
            "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/TCP \(via);branch=z9hG4bKo",
            "From: <sip:a@example.net>;tag=1", "To: <sip:example.net>", "Call-ID: o", "CSeq: 1 OPTIONS",
            "Max-Forwards: 70",
        ])
    }

    private func reused(
        _ via: String, from source: Endpoint = Endpoint(EngineBench.pbx.address, 33_333), transport: Transport = .tcp
    ) -> [Endpoint] {
        let bench = EngineBench()
        let flow = Flow(transport: transport, listener: 1, connection: transport == .udp ? 0 : 7, remote: source)
        return bench.receive(options(from: source, via), on: flow).compactMap {
            if case .reuse(_, let place, _) = $0 { place } else { nil }
        }
    }

    @Test func `requests to a trusted peer that sent alias use the peer's connection`() {
        #expect(reused("10.0.0.2:5070;alias") == [Endpoint(EngineBench.pbx.address, 5070)])
        #expect(reused("10.0.0.2;rport;ALIAS") == [Endpoint(EngineBench.pbx.address, 5060)])
        // The daemon reuses a connection only for the peer's own address; the port comes from the Via. The daemon
        // ignores a name or another address in the Via, because a peer could redirect calls by such a Via.
        #expect(reused("203.0.113.9:5060;alias") == [Endpoint(EngineBench.pbx.address, 5060)])
    }

    @Test func `alias from phones, missing alias and alias over UDP have no effect`() {
        #expect(reused("192.0.2.5:5060;alias", from: EngineBench.phone) == [])
        #expect(reused("10.0.0.2:5060") == [])
        #expect(reused("10.0.0.2:5060;alias", transport: .udp) == [])
    }

    @Test func `alias over TLS has no effect if the peer has not proved the upstream's name`() {
        // The daemon ignores `alias`, because a TLS peer must prove by a certificate that the address is its own.
        #expect(reused("10.0.0.2:5061;alias", transport: .tls) == [])
    }

    @Test func `the daemon sends alias only on connections that the daemon opened`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060;transport=tcp") }
        bench.register(token: nil)
        let call = SIPText.invite(to: "200", from: "bob", at: EngineBench.phone, callID: "up", branch: "up")
        let sent = try #require(sentRequest(bench.receive(call)))
        #expect(sent.via.text.string.hasSuffix(";rport;alias"))
        let called = try #require(sentRequest(bench.invite()))
        #expect(!called.via.text.string.contains("alias"))
    }
}
