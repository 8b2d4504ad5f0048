import Addressing
import Bytes
import Routing
import SIPGrammar
import Testing

@Suite("The listener for other nodes")
struct NodesListenerTests {
    private static func listener(_ number: UInt16, _ place: String, isForNodes: Bool = false) throws -> Listener {
        Listener(
            number: number, transport: .tls, bound: try #require(Endpoint(place)), sentBy: ByteString(place),
            isForNodes: isForNodes)
    }

    private static func identity(_ listeners: [Listener]) -> LocalIdentity {
        LocalIdentity(listeners: listeners, domains: [ByteString("example.net")])
    }

    private let remote = IPAddress(v4: 0xcb00_7109)

    @Test func `no request to other hosts leaves by it`() throws {
        let nodes = try Self.listener(1, "192.0.2.21:5071", isForNodes: true)
        let both = Self.identity([try Self.listener(0, "192.0.2.20:5061"), nodes])
        #expect(both.listener(for: .tls, to: remote, preferring: nil)?.number == 0)
        #expect(both.listener(for: .tls, to: remote, preferring: 1)?.number == 0)
        #expect(both.hasTLS)
        let alone = Self.identity([try Self.listener(0, "192.0.2.21:5071", isForNodes: true)])
        #expect(alone.listener(for: .tls, to: remote, preferring: 0) == nil)
        #expect(!alone.hasTLS)
    }

    @Test func `a flow of a node has it`() throws {
        let identity = Self.identity([
            try Self.listener(0, "192.0.2.20:5061"), try Self.listener(1, "192.0.2.21:5071", isForNodes: true),
        ])
        let flow = Flow(transport: .tls, listener: 1, connection: 0, remote: Endpoint(remote, 5071))
        #expect(identity.listener(for: flow)?.isForNodes == true)
        #expect(identity.listener(1)?.isForNodes == true)
    }

    @Test func `its place is no name of the daemon, but nothing is sent there`() throws {
        let identity = Self.identity([
            try Self.listener(0, "192.0.2.20:5061"), try Self.listener(1, "192.0.2.21:5071", isForNodes: true),
        ])
        let own = try #require(SIPURI(ByteString("sip:bob@192.0.2.20:5061")))
        let nodes = try #require(SIPURI(ByteString("sip:bob@192.0.2.21:5071")))
        #expect(identity.isUs(own) && !identity.isUs(nodes))
        #expect(identity.home(of: own) != nil && identity.home(of: nodes) == nil)
        #expect(identity.isOurs(.tls, try #require(Endpoint("192.0.2.21:5071"))))
        #expect(identity.isOurs(.tcp, try #require(Endpoint("192.0.2.21:5071"))))
        #expect(!identity.isOurs(.udp, try #require(Endpoint("192.0.2.21:5071"))))
    }

    @Test func `the address that other nodes use is the daemon's own, too`() throws {
        let nodes = Listener(
            number: 0, transport: .tls, bound: try #require(Endpoint("0.0.0.0:5071")),
            sentBy: ByteString("203.0.113.1:6071"), isForNodes: true)
        #expect(Self.identity([nodes]).isOurs(.tls, try #require(Endpoint("203.0.113.1:6071"))))
    }
}
