import Addressing
import LoopTesting
import Reactor
import Telemetry
import Testing
import Timekeeping

@testable import ProxyRuntime

@Suite("Stream flows", .timeLimit(.minutes(10)))
struct StreamFlowsTests {
    private func figure(_ counter: Counter, _ scene: ShardScene) async -> UInt64 {
        await scene.bench.run { _ in scene.streams.figures[counter] }
    }

    /// Sends the text on the flow, and returns whether the bytes were accepted.
    private func send(_ text: String, on flow: Flow, _ scene: ShardScene) async -> Bool {
        await scene.bench.run { _ in scene.streams.send(Array(text.utf8), on: flow) }
    }

    /// Makes a flow that stands for any connection to `target`.
    private func flow(to target: Endpoint) -> Flow {
        Flow(transport: .tcp, listener: 1, connection: 0, remote: target)
    }

    /// Registers bob's only phone over a connection.
    ///
    /// - Returns: its flow.
    private func registered(_ scene: ShardScene) async throws -> Flow {
        try await scene.places.connect("phone", to: scene.tcp)
        await scene.register("phone", transport: .tcp)
        _ = try await scene.places.text(until: "SIP/2.0 200", at: "phone")
        return try #require(await scene.flows.first)
    }

    // MARK: Input

    @Test func `a message is complete with its last byte, and the next may come with it`() async throws {
        try await ShardScene.with { scene in
            let client = try await TCPClient.connected(to: scene.tcp, on: scene.bench.loop)
            let (first, others) = (scene.options(1), [2, 3].map { scene.options($0) })
            await client.send(String(decoding: first.dropLast(10), as: UTF8.self))
            #expect(try await client.events.next() == .connected)
            await client.send(String(decoding: first.suffix(10) + others.joined(), as: UTF8.self))
            let text = try await client.text { $0.contains("Call-ID: o3") && $0.hasSuffix("\r\n\r\n") }
            let calls = text.split(separator: "\r\n").filter { $0.hasPrefix("Call-ID: ") }
            #expect(calls == ["Call-ID: o1", "Call-ID: o2", "Call-ID: o3"])
            await client.close()
        }
    }

    @Test func `a double CRLF gets a single CRLF, and a single CRLF gets no answer`() async throws {
        try await ShardScene.with { scene in
            let client = try await TCPClient.connected(to: scene.tcp, on: scene.bench.loop)
            let message = String(decoding: scene.options(1), as: UTF8.self)
            await client.send("\r\n\r\n\r\n\r\n" + message)
            var text = try await client.text { $0.hasSuffix("\r\n\r\n") && $0.contains("SIP/2.0") }
            #expect(text.hasPrefix("\r\n\r\nSIP/2.0 200 "))
            await client.send("\r\n" + String(decoding: scene.options(2), as: UTF8.self))
            text = try await client.text { $0.hasSuffix("\r\n\r\n") && $0.contains("SIP/2.0") }
            #expect(text.hasPrefix("SIP/2.0 200 "))
            await client.close()
        }
    }

    @Test func `a stream that cannot be cut into messages is answered and ends, and the rest is ignored`() async throws
    {
        try await ShardScene.with { scene in
            let client = try await TCPClient.connected(to: scene.tcp, on: scene.bench.loop)
            let (good, next) = (scene.options(1), scene.options(3))
            let bad = String(decoding: scene.options(2), as: UTF8.self)
                .replacing("Content-Length: 0", with: "Content-Length: none")
            await client.send(String(decoding: good, as: UTF8.self) + bad + String(decoding: next, as: UTF8.self))
            let text = try await client.text { _ in false }
            let starts = text.split(separator: "\r\n").filter { $0.hasPrefix("SIP/2.0 ") }.map { $0.prefix(11) }
            #expect(starts == ["SIP/2.0 200", "SIP/2.0 400"])
            try await scene.wait { await figure(.flowClosed, scene) == 1 }
            await client.close()
        }
    }

    // MARK: Connections that the daemon opens

    @Test func `messages that are sent before a connection is open leave in order, and the next uses the same one`()
        async throws
    {
        try await ShardScene.with { scene in
            let target = try await scene.places.tcp("gateway")
            for text in ["one ", "two ", "three "] { #expect(await send(text, on: flow(to: target), scene)) }
            #expect(try await scene.places.text(until: "three ", at: "gateway") == "connectionone two three ")
            #expect(await send("four", on: flow(to: target), scene))
            #expect(try await scene.places.text(until: "four", at: "gateway") == "four")
            #expect(await figure(.flowOpened, scene) == 1)
        }
    }

    @Test func `a connection that the peer closed is opened again`() async throws {
        try await ShardScene.with { scene in
            let target = try await scene.places.tcp("gateway")
            #expect(await send("one", on: flow(to: target), scene))
            _ = try await scene.places.text(until: "one", at: "gateway")
            await scene.places.close()
            try await scene.wait { await figure(.flowClosed, scene) == 1 }
            _ = try await scene.places.tcp("gateway", at: target)
            #expect(await send("two", on: flow(to: target), scene))
            #expect(try await scene.places.text(until: "two", at: "gateway") == "connectiontwo")
            #expect(await figure(.flowOpened, scene) == 2)
        }
    }

    @Test func `if no server listens, the bytes are accepted, and the connection counts as ended`() async throws {
        try await ShardScene.with { scene in
            let nobody = try await scene.places.freePort()
            #expect(await send("one", on: flow(to: nobody), scene))
            try await scene.wait { await figure(.flowClosed, scene) == 1 }
            // The shard does not remember a failed connection as open.
            #expect(await send("two", on: flow(to: nobody), scene))
            #expect(await figure(.flowOpened, scene) == 2)
        }
    }

    @Test(arguments: [true, false])
    func `in a full table a connection of the daemon replaces a stranger's, and no other`(
        isStranger: Bool
    ) async throws {
        var limits = FlowLimits()
        limits.connections = 1
        try await ShardScene.with(limits: limits) { scene in
            let target = try await scene.places.tcp("gateway")
            if isStranger {
                try await scene.places.connect("phone", to: scene.tcp)
                try await scene.wait { await figure(.flowOpened, scene) == 1 }
            } else {
                _ = try await registered(scene)
            }
            #expect(await send("one", on: flow(to: target), scene) == isStranger)
            #expect(await figure(.flowGaveWay, scene) == (isStranger ? 1 : 0))
            #expect(await figure(.flowRefusedFull, scene) == (isStranger ? 0 : 1))
            if isStranger { #expect(try await scene.places.closed.next() == "phone") }
        }
    }

    // MARK: The end

    @Test func `a flow whose connection has gone accepts no bytes and opens none, and its device sleeps`() async throws
    {
        try await ShardScene.with { scene in
            let flow = try await registered(scene)
            #expect(await send("hello", on: flow, scene))
            #expect(try await scene.places.text(until: "hello", at: "phone").hasSuffix("hello"))
            await scene.places.hangUp("phone")
            try await scene.wait { await !scene.flows.contains { $0.isConnection } }
            #expect(await send("hello", on: flow, scene) == false)
            #expect(await figure(.flowOpened, scene) == 1)
            #expect(await figure(.flowClosed, scene) == 1)
        }
    }

    @Test(arguments: [true, false])
    func `a connection that ends while bytes wait for its peer is reported once, by whichever side`(
        isTooMuch: Bool
    ) async throws {
        try await ShardScene.with { scene in
            let client = try await TCPClient.connected(to: scene.tcp, on: scene.bench.loop)
            let register =
                "REGISTER sip:example.net SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bKr\r\n"
                + "From: <sip:bob@example.net>;tag=1\r\nTo: <sip:bob@example.net>\r\nCall-ID: r\r\n"
                + "CSeq: 1 REGISTER\r\nContact: <sip:bob@127.0.0.1:9;transport=tcp>\r\nMax-Forwards: 70\r\n"
                + "Content-Length: 0\r\n\r\n"
            await client.send(register)
            _ = try await client.text { $0.contains("SIP/2.0 200") }
            await client.setReading(false)
            let flow = try #require(await scene.flows.first)
            // The text has as many bytes as may wait for the client; the kernel accepts only a part of the text.
            let much = String(repeating: "x", count: (8 << 20) - 4096)
            #expect(await send(much, on: flow, scene))
            #expect(await scene.flows.map(\.isConnection) == [true])
            if isTooMuch {
                // The connection accepts the bytes, and reports its end only after `send` has returned.
                let isThere = await scene.bench.run { _ in
                    scene.streams.send(Array(much.utf8), on: flow) && scene.streams.figures[.flowClosed] == 0
                }
                #expect(isThere)
            } else {
                await client.close()
            }
            try await scene.wait { await !scene.flows.contains { $0.isConnection } }
            #expect(await send("more", on: flow, scene) == false)
            #expect(await figure(.flowClosed, scene) == 1)
            #expect(await figure(.flowNotReading, scene) == (isTooMuch ? 1 : 0))
            await client.close()
        }
    }

    @Test func `new limits apply to open connections`() async throws {
        var limits = FlowLimits()
        limits.firstRequest = .seconds(3600)
        limits.authentication = nil
        try await ShardScene.with(limits: limits) { scene in
            try await scene.places.connect("phone", to: scene.tcp)
            try await scene.wait { await figure(.flowOpened, scene) == 1 }
            await scene.bench.run { [limits] _ in
                var limits = limits
                limits.firstRequest = .milliseconds(1)
                scene.streams.limitsChanged(limits)
            }
            #expect(try await scene.places.closed.next() == "phone")
            #expect(await figure(.flowNoRequest, scene) == 1)
        }
    }
}
