import ProxyPolicy
import Routing
import Addressing
import Bytes
import Crypto
import Foundation
import LoopTesting
import Persistence
import ProxyCore
import PushDelivery
import PushSending
import Reactor
import Registration
import SIPGrammar
import StoreTesting
import Telemetry
import Testing
import TestSupport
import Timekeeping

@testable import ProxyRuntime

/// A shard on a loop of its own, with sockets and a store. The test itself answers the look-ups of host names.
struct ShardScene: Sendable {
    let bench: Bench
    let shard: ProxyShard
    let streams: StreamFlows
    let store: DatabaseStore
    let push: PushService
    let lookUps: HeldLookUps
    let places: Places
    let folder: StoreFolder
    let udp: Endpoint
    let tcp: Endpoint
    /// The listener for other nodes, which has the number 2; `nil` without a cluster.
    let nodes: Endpoint?

    static let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    /// Runs a test with a new shard. Phones of the scene need no password, and requests for users of other domains go
    /// to `gateway.test`. With `cluster`, the shard has a listener for other nodes.
    static func with(
        limits: FlowLimits = FlowLimits(), cluster: NodeContexts? = nil, _ body: (ShardScene) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let folder = try StoreFolder()
            let bench = Bench(loop)
            let parts = try await bench.run { try ShardParts(on: $0.loop, folder, limits, cluster) }
            let scene = ShardScene(
                bench: bench, shard: parts.shard, streams: parts.streams, store: parts.store, push: parts.push,
                lookUps: parts.lookUps, places: Places(loop), folder: folder, udp: parts.socket.local,
                tcp: parts.listener.local, nodes: parts.nodes?.local)
            let result: Result<Void, any Error>
            do {
                result = .success(try await body(scene))
            } catch {
                result = .failure(error)
            }
            await scene.places.close()
            await bench.run { _ in parts.close() }
            try result.get()
        }
    }

    func register(
        _ name: String, _ number: Int = 1, transport: Transport = .udp, contact: String = "<sip:bob@127.0.0.1:9>"
    ) async {
        await places.send(
            SIPText.register(
                user: "bob", from: Endpoint(.loopbackV4, 9), transport: transport, callID: "r\(number)", cseq: 1,
                branch: "r\(number)", contact: contact), from: name, to: udp)
    }

    func options(_ number: Int) -> [UInt8] {
        SIPText.bytes([
            "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bKo\(number)",
            "From: <sip:a@example.net>;tag=1", "To: <sip:example.net>", "Call-ID: o\(number)", "CSeq: 1 OPTIONS",
            "Max-Forwards: 70",
        ])
    }

    /// Makes an INVITE for a user who does not belong to the domain.
    func invite(_ number: Int, at source: Endpoint) -> [UInt8] {
        SIPText.invite(to: "103", from: "bob", at: source, callID: "i\(number)", branch: "i\(number)")
    }

    var door: ShardDoor { ShardDoor(to: shard) }

    var bindingCount: Int {
        get async { await door.ask(.everything) { engine, _ in engine.bindings.count } }
    }

    /// The flows on which bob's devices have registered.
    var flows: [Flow] {
        get async { await door.ask(.everything) { engine, now in engine.targets(of: Self.bob, now: now).map(\.flow) } }
    }

    /// Checks the condition in each turn of the loop until it is true. The suite's time limit ends the waiting.
    func wait(until isSo: () async throws -> Bool) async throws {
        while try await !isSo() {
            try Task.checkCancellation()
            await Task.yield()
        }
    }
}

/// Look-ups of host names, whose answers the test gives.
///
/// - The type is `@unchecked Sendable`, because only the loop's thread uses it.
final class HeldLookUps: @unchecked Sendable {
    let asked = Mailbox<String>()
    /// The immediate answer to all look-ups; `nil` if the test answers later.
    var known: [ResolvedHop]?
    /// A function that is called whenever the shard asks for a look-up.
    var whenAsked: () -> Void = {}
    private var waiting: [([ResolvedHop]) -> Void] = []

    func ask(_ hop: NextHop, _ done: @escaping ([ResolvedHop]) -> Void) {
        waiting.append(done)
        whenAsked()
        asked.put(hop.host.string)
        if let known { done(known) }
    }

    /// Answers look-up `number`, counted from 0, perhaps several times.
    func answer(_ number: Int, with hops: [ResolvedHop]) { waiting[number](hops) }
}

/// The TLS contexts of a node.
struct NodeContexts: Sendable {
    let server: TLSContext
    let client: TLSContext

    /// Makes the contexts of a node whose certificate has the given address, with a new authority.
    init(address: String) throws {
        let made = try CertificateAuthority.make(name: "ca", validDays: 10)
        let authority = PEM.bytes(made.certificate)
        let own = try CertificateAuthority(TLSIdentity(certificate: authority, key: .bytes(made.key)))
            .issue(name: "node-a", addresses: [address], validDays: 10)
        let (certificate, key) = (PEM.bytes(own.certificate), PEM.bytes(own.key))
        server = try TLSContext.server(
            identities: [TLSIdentity(certificate: certificate, key: key)], clients: .mustShow(authority))
        client = try TLSContext.client(authority: authority, certificate: certificate, key: key)
    }
}

/// A shard with the parts that it uses. The type is `@unchecked Sendable`, because only the loop's thread uses it.
private final class ShardParts: @unchecked Sendable {
    let shard: ProxyShard
    let streams: StreamFlows
    let store: DatabaseStore
    let push: PushService
    let lookUps = HeldLookUps()
    let socket: UDPSocket
    let listener: StreamListener
    let nodes: StreamListener?

    init(on loop: EventLoop, _ folder: StoreFolder, _ limits: FlowLimits, _ cluster: NodeContexts?) throws {
        let tls = TLSSetup()
        tls.changed(nodes: cluster?.client)
        let streams = try StreamFlows(loop: loop, limits: limits, tls: tls, log: .silent)
        self.streams = streams
        store = try folder.open(loop: loop, log: .silent)
        push = try PushService(loop: loop, settings: try Self.pushSettings(folder), log: .silent)
        socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
        listener = try StreamListener(
            boundTo: Endpoint(.loopbackV4, 0), on: loop, limit: 100, connectionLimits: StreamFlows.streamLimits(limits)
        ) { streams.accepted($0, by: 1) }
        nodes = try cluster.map {
            try StreamListener(
                boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: $0.server, limit: 100,
                connectionLimits: StreamFlows.streamLimits(limits)
            ) { streams.accepted($0, by: 2, transport: .tls) }
        }
        let engine = try Self.makeEngine(on: loop, udp: socket.local, tcp: listener.local, nodes?.local, push)
        let listeners = engine.identity.listeners
        let services = ShardServices(
            store: store, push: push, resolve: { [lookUps] hop, done in lookUps.ask(hop, done) })
        let shard = ProxyShard(loop: loop, engine: engine, streams: streams, services: services, log: .silent)
        self.shard = shard
        streams.start(for: shard, listeners: listeners)
        store.finished = { [weak shard] results in shard?.assumeIsolated { $0.committed(results) } }
        push.happened = { [weak shard] event in shard?.assumeIsolated { $0.pushHappened(event) } }
        let sockets: [UInt16: UDPSocket] = [0: socket]
        shard.assumeIsolated { $0.start(sockets: sockets) }
    }

    /// Makes push settings in which Apple cannot be reached, and Google is not configured.
    private static func pushSettings(_ folder: StoreFolder) throws -> PushSettings {
        var settings = PushSettings()
        settings.apns.enabled = true
        settings.apns.endpoint = "http://127.0.0.1:9"
        settings.apns.teamID = "DEF123GHIJ"
        settings.apns.keyID = "ABC123DEFG"
        settings.apns.keyFile = folder.folder + "/apple.p8"
        try Data(TestKeys.rfc7515P256.utf8).write(to: URL(fileURLWithPath: folder.folder + "/apple.p8"))
        return settings
    }

    private static func makeEngine(
        on loop: EventLoop, udp: Endpoint, tcp: Endpoint, _ nodes: Endpoint?, _ push: PushService
    ) throws -> ProxyEngine {
        var settings = ProxySettings()
        settings.domains = [ByteString("example.net")]
        settings.authenticates = false
        settings.upstream = NextHop("sip:gateway.test")
        settings.configuredProviders = [.apns, .fcm]
        settings.dispatch = push.setup
        var listeners = [
            Listener(number: 0, transport: .udp, bound: udp, sentBy: ByteString("\(udp)")),
            Listener(number: 1, transport: .tcp, bound: tcp, sentBy: ByteString("\(tcp)")),
        ]
        if let nodes {
            listeners.append(
                Listener(
                    number: 2, transport: .tls, bound: nodes, sentBy: ByteString("\(nodes)"), isForNodes: true))
        }
        let sealer = TextSealer()
        try sealer.use([UInt8](repeating: 7, count: 32), number: 1)
        return ProxyEngine(
            settings: settings, identity: LocalIdentity(listeners: listeners, domains: settings.domains),
            functions: try EngineFunctions.make(seal: sealer, log: .silent), startedAt: loop.moment.date)
    }

    func close() {
        socket.close()
        push.close()
        store.close()
    }
}
