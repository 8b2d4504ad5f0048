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

    @Test func `a trusted peer that says alias is reached by its connection, at the port that it names`() {
        #expect(reused("10.0.0.2:5070;alias") == [Endpoint(EngineBench.pbx.address, 5070)])
        #expect(reused("10.0.0.2;rport;ALIAS") == [Endpoint(EngineBench.pbx.address, 5060)])
        // The address that is used again is always the peer's own. An alias with a name or another address would
        // redirect calls.
        #expect(reused("203.0.113.9:5060;alias") == [Endpoint(EngineBench.pbx.address, 5060)])
    }

    @Test func `nobody else is, nor one that does not say so, nor by datagrams`() {
        #expect(reused("192.0.2.5:5060;alias", from: EngineBench.phone) == [])
        #expect(reused("10.0.0.2:5060") == [])
        #expect(reused("10.0.0.2:5060;alias", transport: .udp) == [])
    }

    @Test func `over TLS the peer must have proved the upstream's name`() {
        // The peer has not proved that the alias belongs to it. The address alone does not show which program is at the
        // other end of the connection.
        #expect(reused("10.0.0.2:5061;alias", transport: .tls) == [])
    }

    @Test func `we say so on connections that we open, and nowhere else`() throws {
        let bench = EngineBench { $0.upstream = NextHop("sip:10.0.0.2:5060;transport=tcp") }
        bench.register(token: nil)
        let call = SIPText.invite(to: "200", from: "bob", at: EngineBench.phone, callID: "up", branch: "up")
        let sent = try #require(sentRequest(bench.receive(call)))
        #expect(sent.via.text.string.hasSuffix(";rport;alias"))
        let called = try #require(sentRequest(bench.invite()))
        #expect(!called.via.text.string.contains("alias"))
    }
}
