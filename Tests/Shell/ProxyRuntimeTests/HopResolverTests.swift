import ProxyPolicy
import Routing
import Addressing
import Bytes
import LoopTesting
import ProxyCore
import Reactor
import Testing

@testable import ProxyRuntime

@Suite("Next hops", .timeLimit(.minutes(10)))
struct HopResolverTests {
    /// The resolver of a daemon that uses UDP and TCP, and the resolver's answers.
    ///
    /// - The type is `@unchecked Sendable`, because only the loop's thread uses it until the loop has ended.
    private final class Desk: @unchecked Sendable {
        var resolver: HopResolver?
        let answers = Mailbox<[ResolvedHop]>()
        private(set) var answerCount = 0

        init(_ loop: EventLoop, _ servers: [Endpoint]) throws {
            resolver = try HopResolver(loop: loop, spoken: [.udp, .tcp], servers: servers)
        }

        /// Asks the resolver for the servers of a host, and returns whether the answer came immediately.
        func ask(
            _ host: String, _ port: UInt16? = nil, _ transport: Transport? = nil, isSecure: Bool = false
        ) -> Bool {
            let before = answerCount
            let hop = NextHop(host: ByteString(host), port: port, transport: transport, isSecure: isSecure)
            resolver?.resolve(hop) { [self] hops in
                answerCount += 1
                answers.put(hops)
            }
            return answerCount > before
        }
    }

    private static let zones: [String: FakeNameServer.Zone] = [
        "sip.test": .records(
            [
                .naptr(order: 1, preference: 1, service: "SIPS+D2T", replacement: "_sips._tcp.sip.test"),
                .naptr(order: 2, preference: 1, service: "SIP+D2T", replacement: "_sip._tcp.sip.test"),
                .naptr(order: 3, preference: 1, service: "SIP+D2U", replacement: "_sip._udp.sip.test"),
            ], timeToLive: 300),
        "_sips._tcp.sip.test": .records(
            [.srv(priority: 1, weight: 1, port: 5071, target: "one.test")], timeToLive: 300),
        "_sip._tcp.sip.test": .records([.srv(priority: 1, weight: 1, port: 5072, target: "two.test")], timeToLive: 300),
        "_sip._udp.sip.test": .records(
            [
                .srv(priority: 2, weight: 1, port: 5074, target: "two.test"),
                .srv(priority: 1, weight: 1, port: 5073, target: "one.test"),
            ], timeToLive: 300),
        "one.test": .records([.a(0x7f00_0001)], timeToLive: 300),
        "two.test": .records([.a(0x7f00_0002)], timeToLive: 300),
        "broken.test": .serverFailure,
        "silent.test": .silence,
    ]

    private static let one = IPAddress(v4: 0x7f00_0001)
    private static let two = IPAddress(v4: 0x7f00_0002)

    private func withDesk(_ body: (Bench, Desk, FakeNameServer) async throws -> Void) async throws {
        try await withLoop { loop in
            let server = FakeNameServer(loop, Self.zones)
            let endpoint = try await server.listen()
            let bench = Bench(loop)
            let desk = try await bench.run { try Desk($0.loop, [endpoint]) }
            try await body(bench, desk, server)
            await bench.run { _ in desk.resolver = nil }
            await server.close()
        }
    }

    @Test func `a name leads to all its servers in order, without unsupported transports`() async throws {
        try await withDesk { bench, desk, _ in
            #expect(await bench.run { _ in desk.ask("sip.test") } == false)
            let hops = try await desk.answers.next()
            #expect(
                hops == [
                    ResolvedHop(transport: .tcp, endpoint: Endpoint(Self.two, 5072)),
                    ResolvedHop(transport: .udp, endpoint: Endpoint(Self.one, 5073)),
                    ResolvedHop(transport: .udp, endpoint: Endpoint(Self.two, 5074)),
                ])
        }
    }

    @Test func `a transport that is wished for is the only one`() async throws {
        try await withDesk { bench, desk, _ in
            _ = await bench.run { _ in desk.ask("sip.test", nil, .udp) }
            var hops = try await desk.answers.next()
            #expect(hops.map(\.endpoint.port) == [5073, 5074])
            _ = await bench.run { _ in desk.ask("two.test", 5099, .tcp) }
            hops = try await desk.answers.next()
            #expect(hops == [ResolvedHop(transport: .tcp, endpoint: Endpoint(Self.two, 5099))])
        }
    }

    @Test(arguments: ["missing.test", "broken.test", "not a name"])
    func `a name without a target has no address, and neither has a failure`(host: String) async throws {
        try await withDesk { bench, desk, _ in
            _ = await bench.run { _ in desk.ask(host, 5060) }
            try await desk.answers.expect([])
        }
    }

    @Test func `a secure hop is not led to an insecure place`() async throws {
        try await withDesk { bench, desk, _ in
            _ = await bench.run { _ in desk.ask("sip.test", isSecure: true) }
            var hops = try await desk.answers.next()
            #expect(hops == [])
            #expect(await bench.run { _ in desk.ask("127.0.0.1", isSecure: true) })
            hops = try await desk.answers.next()
            #expect(hops == [])
        }
    }

    @Test func `two simultaneous look-ups share the questions, and known names are answered within the call`()
        async throws
    {
        try await withDesk { bench, desk, server in
            let areKnown = await bench.run { _ in (0..<2).map { _ in desk.ask("one.test", 5060) } }
            #expect(areKnown == [false, false])
            let hop = ResolvedHop(transport: .udp, endpoint: Endpoint(Self.one, 5060))
            for _ in 0..<2 { #expect(try await desk.answers.next() == [hop]) }
            #expect(await bench.run { _ in desk.ask("one.test", 5060) })
            #expect(try await desk.answers.next() == [hop])
            #expect(await bench.run { _ in desk.ask("127.0.0.2", 5060) })
            #expect(try await desk.answers.next().map(\.endpoint) == [Endpoint(Self.two, 5060)])
            // After the answer, the resolver is asked about another host.
            _ = await bench.run { _ in desk.ask("two.test", 5060) }
            _ = try await desk.answers.next()
            var asked: [String] = []
            while asked.last?.hasPrefix("two.test") != true { asked.append(try await server.asked.next()) }
            #expect(Set(asked.dropLast()) == ["one.test 1", "one.test 28"] && asked.count == 3)
            #expect(await bench.run { _ in desk.answerCount } == 5)
        }
    }

    @Test func `a look-up that waits when the resolver goes gets an empty answer, once`() async throws {
        try await withDesk { bench, desk, server in
            _ = await bench.run { _ in desk.ask("silent.test", 5060) }
            _ = try await server.asked.next()
            await bench.run { _ in desk.resolver = nil }
            #expect(try await desk.answers.next() == [])
            #expect(await bench.run { _ in desk.answerCount } == 1)
        }
    }

    @Test func `so does a look-up that waits when the loop has ended first`() async throws {
        let desk = try await withLoop { loop in
            let desk = try await Bench(loop).run { try Desk($0.loop, [Endpoint(.loopbackV4, 9)]) }
            #expect(await Bench(loop).run { _ in desk.ask("silent.test", 5060) } == false)
            return desk
        }
        desk.resolver = nil
        #expect(try await desk.answers.next() == [])
        #expect(desk.answerCount == 1)
    }
}
