import Addressing
import Crypto
import LoopTesting
import Reactor
import Telemetry
import Testing

@testable import ProxyRuntime

@Suite("Connections between nodes", .timeLimit(.minutes(10)))
struct NodeFlowsTests {
    private func figure(_ counter: Counter, _ scene: ShardScene) async -> UInt64 {
        await scene.bench.run { _ in scene.streams.figures[counter] }
    }

    private func connections(_ scene: ShardScene) async -> Int {
        await scene.bench.run { _ in scene.streams.connections.count }
    }

    /// A flow to the scene's own listener for nodes.
    private func flow(_ scene: ShardScene) throws -> Flow {
        Flow(transport: .tls, listener: 2, connection: 0, remote: try #require(scene.nodes))
    }

    private func send(_ text: String, on flow: Flow, _ scene: ShardScene) async -> Bool {
        await scene.bench.run { _ in scene.streams.send(Array(text.utf8), on: flow) }
    }

    /// Connects with the certificate of a node, and waits for the handshake.
    private func connect(_ cluster: NodeContexts, to scene: ShardScene) async throws -> StreamConnection {
        let place = try #require(scene.nodes)
        let before = await figure(.tlsFull, scene)
        let stream = try await scene.bench.run { bench in
            try StreamConnection.connect(
                to: place, on: bench.loop, tls: try cluster.client.makeClientSession(host: "127.0.0.1"),
                handlers: .init(connected: { _ in }, received: { $1.count }, closed: { _, _ in }))
        }
        try await scene.wait { await figure(.tlsFull, scene) == before + 1 }
        return stream
    }

    @Test func `a node is no stranger after its handshake, and everybody is a stranger before`() async throws {
        let cluster = try NodeContexts(address: "127.0.0.1")
        var limits = FlowLimits()
        limits.perSource = 1
        try await ShardScene.with(limits: limits, cluster: cluster) { scene in
            var streams: [StreamConnection] = []
            for _ in 0..<3 { streams.append(try await connect(cluster, to: scene)) }
            #expect(await connections(scene) == 3)
            #expect(await figure(.flowRefusedSource, scene) == 0)
            // The first silent connection waits for its handshake, and the second exceeds the limit of its source.
            let place = try #require(scene.nodes)
            let silent = try await TCPClient.connected(to: place, on: scene.bench.loop)
            try await scene.wait { await connections(scene) == 4 }
            let second = try await TCPClient.connected(to: place, on: scene.bench.loop)
            try await scene.wait { await figure(.flowRefusedSource, scene) == 1 }
            await silent.close()
            await second.close()
            await scene.bench.run { [streams] _ in for stream in streams { stream.close() } }
        }
    }

    @Test func `nodes may connect while strangers may not`() async throws {
        let cluster = try NodeContexts(address: "127.0.0.1")
        try await ShardScene.with(cluster: cluster) { scene in
            await scene.bench.run { _ in scene.streams.refusesStrangers = true }
            let stranger = try await TCPClient.connected(to: scene.tcp, on: scene.bench.loop)
            try await scene.wait { await figure(.flowRefusedFull, scene) == 1 }
            let stream = try await connect(cluster, to: scene)
            #expect(await connections(scene) == 1)
            await stranger.close()
            await scene.bench.run { _ in stream.close() }
        }
    }

    @Test func `the daemon shows its node's certificate, and both ends of the connection open`() async throws {
        try await ShardScene.with(cluster: try NodeContexts(address: "127.0.0.1")) { scene in
            #expect(await send("\r\n\r\n", on: try flow(scene), scene))
            try await scene.wait { await figure(.tlsFull, scene) == 2 }
            #expect(await connections(scene) == 2)
            // A flow of another listener to the same place does not use the connection, and has no certificate.
            let other = Flow(transport: .tls, listener: 1, connection: 0, remote: try #require(scene.nodes))
            #expect(await !send("\r\n\r\n", on: other, scene))
        }
    }

    @Test func `a node whose certificate has another address gets nothing`() async throws {
        try await ShardScene.with(cluster: try NodeContexts(address: "127.0.0.2")) { scene in
            #expect(await send("\r\n\r\n", on: try flow(scene), scene))
            try await scene.wait { await figure(.tlsRefusedOutgoing, scene) == 1 }
            #expect(await figure(.tlsFull, scene) == 0)
        }
    }

    @Test func `a node's connection is not used for other addresses of the node`() async throws {
        let cluster = try NodeContexts(address: "127.0.0.1")
        try await ShardScene.with(cluster: cluster) { scene in
            let stream = try await connect(cluster, to: scene)
            let target = Endpoint(.loopbackV4, 9)
            let alias = Flow(transport: .tls, listener: 2, connection: 0, remote: target)
            let isAlias = await scene.bench.run { _ in
                guard let flow = scene.streams.connections.values.first?.flow else { return true }
                scene.streams.reuse(flow, as: target, .none)
                return scene.streams.local(of: alias) != nil
            }
            #expect(!isAlias)
            await scene.bench.run { _ in stream.close() }
        }
    }
}
