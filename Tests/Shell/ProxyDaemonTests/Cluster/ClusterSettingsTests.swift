import Addressing
import Bytes
import Crypto
import HTTPServices
import ProxyPolicy
import ProxyRuntime
import PushDelivery
import Reactor
import Routing
import Settings
import Telemetry
import TestSupport
import Testing

@testable import ProxyDaemon

@Suite("Settings of a cluster")
struct ClusterSettingsTests {
    private static let whole = """
        domains: [example.net]
        postgresql:
          connection: "host=127.0.0.1 dbname=a"
        cluster:
          node: node-a
          listen: "192.0.2.21:5071"
          cert-file: /tmp/cert.pem
          key-file: /tmp/key.pem
          ca-file: /tmp/ca.pem
        """

    private func complaint(_ yaml: String) -> String {
        do throws(SettingsError) {
            _ = try DaemonSettings(yaml: Array(yaml.utf8), file: "f")
            return ""
        } catch {
            return error.description
        }
    }

    @Test func `a whole group is read`() throws {
        let settings = try DaemonSettings(yaml: Array(Self.whole.utf8), file: "f")
        #expect(settings.cluster.node == "node-a" && settings.cluster.listen == Endpoint("192.0.2.21:5071"))
        #expect(settings.cluster.advertise == nil && settings.cluster.caFile == "/tmp/ca.pem")
        #expect(DaemonSettings().cluster == ClusterSettings())
    }

    @Test(arguments: [
        ("  node: node-a\n", "", "listen: expected node as well"),
        ("  listen: \"192.0.2.21:5071\"\n", "", "node: expected listen as well"),
        ("  cert-file: /tmp/cert.pem\n", "", "expected cert-file as well; sippushd cluster cert makes the files"),
        ("  key-file: /tmp/key.pem\n", "", "expected key-file as well"),
        ("  ca-file: /tmp/ca.pem", "", "expected ca-file as well"),
        ("node: node-a", "node: \"node a\"", "expected 1 to 32 letters, digits, - and _"),
        ("node: node-a", "node: \(String(repeating: "a", count: 33))", "expected 1 to 32 letters"),
        ("\"192.0.2.21:5071\"", "\"node-a.example.net:5071\"", "expected ADDRESS:PORT"),
        ("  connection: \"host=127.0.0.1 dbname=a\"", "  password-file: /tmp/p", "expected postgresql.connection"),
        ("domains: [example.net]", "domains: [example.net]\nlisten: [\"tcp:192.0.2.21:5071\"]", "listen"),
        ("domains: [example.net]", "domains: [example.net]\nadmin: {listen: [\"192.0.2.21:5071\"]}", "admin.listen"),
        ("domains: [example.net]", "domains: [example.net]\ntls: {client-ca-file: /tmp/ca.pem}", "tls.client-ca-file"),
        ("domains: [example.net]", "domains: [example.net]\ntls: {ca-file: /tmp/ca.pem}", "tls.ca-file"),
        ("  node: node-a", "  node: node-a\n  advertise: \"node-a.example.net:5071\"", "expected the IP address"),
        ("  node: node-a", "  node: node-a\n  advertise: \"0.0.0.0:5071\"", "expected the IP address"),
        ("  node: node-a", "  node: node-a\n  advertise: \"192.0.2.21:0\"", "expected the IP address"),
    ])
    func `a wrong group is refused with a reason`(part: String, other: String, reason: String) {
        #expect(complaint(Self.whole) == "")
        let yaml = Self.whole.replacing(part, with: other)
        #expect(yaml != Self.whole)
        #expect(complaint(yaml).contains(reason), "\(complaint(yaml))")
    }

    @Test func `advertise alone names all that is missing`() {
        let text = complaint("domains: [example.net]\ncluster: {advertise: \"192.0.2.21:5071\"}")
        #expect(text.contains("advertise: expected node, listen, cert-file, key-file, ca-file as well"), "\(text)")
    }

    @Test func `files and ports of a cluster are known to the checks`() {
        var settings = DaemonSettings()
        settings.cluster.listen = Endpoint("192.0.2.21:5071")
        settings.cluster.certFile = "/tmp/cert.pem"
        settings.cluster.keyFile = "/tmp/key.pem"
        settings.cluster.caFile = "/tmp/ca.pem"
        let keys = settings.namedFiles(settingsAt: "f").map(\.key)
        for key in ["cluster.cert-file", "cluster.key-file", "cluster.ca-file"] { #expect(keys.contains(key)) }
        #expect(settings.places.contains { $0.name == "cluster.listen 192.0.2.21:5071" && $0.isStream })
    }

    // MARK: The listener

    private func bound(
        _ change: (inout DaemonSettings) -> Void = { _ in }, _ check: (BoundSockets, DaemonSettings) throws -> Void
    ) throws {
        let folder = try TemporaryFolder()
        let authority = try ClusterCertificates.makeAuthority()
        let (file, key) = (
            try folder.write(authority.certificate, to: "ca.pem"), try folder.write(authority.key, to: "ca.key")
        )
        let own = try ClusterCertificates(node: "node-a", addresses: ["127.0.0.1"], days: 10)
            .issue(authority: file, key: key)
        var settings = DaemonSettings()
        settings.listen = [
            ListenAddress(transport: .udp, endpoint: Endpoint(.loopbackV4, 0)),
            ListenAddress(transport: .tcp, endpoint: Endpoint(.loopbackV4, 0)),
        ]
        settings.cluster.node = "node-a"
        settings.cluster.listen = Endpoint(.loopbackV4, 0)
        settings.cluster.certFile = try folder.write(own.certificate, to: "cert.pem")
        settings.cluster.keyFile = try folder.write(own.key, to: "key.pem")
        settings.cluster.caFile = file
        change(&settings)
        let loop = try EventLoop()
        let tls = try ListenerTLS(settings.tls, cluster: settings.cluster, on: loop)
        let streams = try StreamFlows(loop: loop, tls: tls.setup, log: .silent)
        try check(try BoundSockets(settings, FlowLimits(), streams, tls: tls, on: loop), settings)
    }

    @Test func `the listener for nodes has the next number and its own address`() throws {
        try bound { sockets, settings in
            let nodes = try #require(sockets.nodeListener)
            #expect(nodes.number == 2 && nodes.transport == .tls && nodes.bound.port != 0)
            #expect(nodes.sentBy == ByteString("127.0.0.1:\(nodes.bound.port)"))
            #expect(sockets.listeners.map(\.isForNodes) == [false, false, true])
            #expect(sockets.spoken == [.udp, .tcp])
            let secret = SipHash.Key(low: 1, high: 2)
            #expect(sockets.node(of: settings, run: nil, secret: secret) == nil)
            let node = try #require(sockets.node(of: settings, run: 7, secret: secret))
            #expect(node.name == "node-a" && node.place == nodes.sentBy && node.listener == 2 && node.run == 7)
        }
    }

    @Test func `other nodes use the advertised address`() throws {
        try bound({ $0.cluster.advertise = Endpoint("192.0.2.21:6071") }) { sockets, _ in
            #expect(sockets.nodeListener?.sentBy == ByteString("192.0.2.21:6071"))
        }
        // The general setting `advertise` is for phones and PBXs.
        try bound({ $0.advertise = "sip.example.net" }) { sockets, _ in
            #expect(sockets.nodeListener?.sentBy.hasPrefix("127.0.0.1:") == true)
            #expect(sockets.listeners.first?.sentBy.hasPrefix("sip.example.net:") == true)
        }
    }

    @Test func `a listener on all addresses is reached at the machine's first address`() throws {
        try bound({ $0.cluster.listen = Endpoint(.anyV4, 0) }) { sockets, _ in
            let nodes = try #require(sockets.nodeListener)
            #expect(nodes.sentBy == ByteString("\(HostAddress.primary(isV4: true).uriHost):\(nodes.bound.port)"))
        }
    }

    @Test func `the WebSocket path of the HTTP API keeps its number beside a cluster`() throws {
        try bound({
            $0.webSocket.apiPath = "/sip"
            $0.api.listen = [Endpoint(.loopbackV4, 0)]
        }) { sockets, _ in
            #expect(sockets.listeners.map(\.transport) == [.udp, .tcp, .ws, .tls])
            #expect(sockets.nodeListener?.number == 3)
        }
    }

    @Test func `without a cluster there is no such listener`() throws {
        try bound({ $0.cluster = ClusterSettings() }) { sockets, settings in
            #expect(sockets.nodeListener == nil && sockets.listeners.count == 2)
            #expect(sockets.node(of: settings, run: 7, secret: SipHash.Key(low: 1, high: 2)) == nil)
        }
    }
}
