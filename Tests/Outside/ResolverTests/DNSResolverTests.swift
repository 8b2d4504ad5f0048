import Addressing
import LoopTesting
import Reactor
import Resolver
import TestSupport
import Testing

@Suite("DNS resolver", .timeLimit(.minutes(10)))
struct DNSResolverTests {
    private func with(
        _ zones: [String: FakeNameServer.Zone], timeout: Duration = .seconds(5),
        _ body: (DNSResolver, FakeNameServer) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let server = FakeNameServer(loop, zones)
            let endpoint = try await server.listen()
            let bench = Bench(loop)
            let resolver = try await bench.run { bench in
                try DNSResolver(
                    on: bench.loop, servers: [endpoint], timeout: timeout, tries: 1, random: SeededGenerator(seed: 1))
            }
            try await body(resolver, server)
            await bench.run { _ in resolver.close() }
            await server.close()
        }
    }

    /// Looks up the name `mark`, and returns the queries that the server got before the query for `mark`.
    private func questions(_ server: FakeNameServer, _ resolver: DNSResolver) async throws -> [String] {
        _ = try? await resolver.candidates(for: ServerQuery(host: "mark.test", transport: .udp))
        var asked: [String] = []
        while true {
            let question = try await server.asked.next()
            if question.contains("mark.test") { return asked }
            asked.append(question)
        }
    }

    private static let zones: [String: FakeNameServer.Zone] = [
        "a.test": .records(
            [
                .naptr(order: 1, preference: 1, service: "SIPS+D2T", replacement: "_sips._tcp.a.test"),
                .naptr(order: 2, preference: 1, service: "SIP+D2U", replacement: "_sip._udp.a.test"),
            ], timeToLive: 300),
        "_sips._tcp.a.test": .records([.srv(priority: 1, weight: 1, port: 5071, target: "one.test")], timeToLive: 300),
        "_sip._udp.a.test": .records(
            [
                .srv(priority: 2, weight: 1, port: 5072, target: "two.test"),
                .srv(priority: 1, weight: 1, port: 5073, target: "one.test"),
            ], timeToLive: 300),
        "one.test": .records([.a(0x7f00_0001)], timeToLive: 300),
        "two.test": .records([.a(0x7f00_0002), .aaaa(high: 0, low: 1)], timeToLive: 300),
        "broken.test": .serverFailure,
        "silent.test": .silence,
    ]

    @Test func `NAPTR, SRV and addresses lead to the candidates, and the second time no question is sent`() async throws
    {
        try await with(Self.zones) { resolver, server in
            for isFirst in [true, false] {
                let candidates = try await resolver.candidates(for: ServerQuery(host: "A.test"))
                #expect(
                    candidates.prefix(2) == [
                        ServerCandidate(.tls, Endpoint(IPAddress(v4: 0x7f00_0001), 5071)),
                        ServerCandidate(.udp, Endpoint(IPAddress(v4: 0x7f00_0001), 5073)),
                    ])
                // The resolver may return the two addresses in either order, because the system decides which address
                // family comes first.
                #expect(
                    Set(candidates.dropFirst(2)) == [
                        ServerCandidate(.udp, Endpoint(IPAddress(v4: 0x7f00_0002), 5072)),
                        ServerCandidate(.udp, Endpoint(IPAddress(high: 0, low: 1), 5072)),
                    ])
                let asked = try await questions(server, resolver)
                if isFirst {
                    #expect(
                        Set(asked) == [
                            "a.test 35", "_sips._tcp.a.test 33", "_sip._udp.a.test 33", "one.test 1", "one.test 28",
                            "two.test 1", "two.test 28",
                        ])
                    #expect(asked.count == 7)
                } else {
                    #expect(asked.isEmpty)
                }
            }
        }
    }

    @Test func `searches for the same name share their questions`() async throws {
        try await with(Self.zones) { resolver, server in
            let found = try await withThrowingTaskGroup(of: [ServerCandidate].self) { group in
                for _ in 0..<50 {
                    group.addTask { try await resolver.candidates(for: ServerQuery(host: "one.test", port: 5060)) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(found.count == 50)
            #expect(Set(found) == [[ServerCandidate(.udp, Endpoint(.loopbackV4, 5060))]])
            let asked = try await questions(server, resolver)
            #expect(Set(asked) == ["one.test 1", "one.test 28"] && asked.count == 2)
        }
    }

    @Test(arguments: [
        ("missing.test", ResolverError.notFound), ("broken.test", .unavailable), ("silent.test", .unavailable),
        ("not a name", .invalidQuery),
    ])
    func `failures have their names`(host: String, error: ResolverError) async throws {
        try await with(Self.zones, timeout: host == "silent.test" ? .milliseconds(50) : .seconds(20)) { resolver, _ in
            await #expect(throws: error) { try await resolver.candidates(for: ServerQuery(host: host, port: 5060)) }
        }
    }

    @Test func `a name that does not exist is not asked for again at once`() async throws {
        try await with(Self.zones) { resolver, server in
            for _ in 0..<3 {
                await #expect(throws: ResolverError.notFound) {
                    try await resolver.candidates(for: ServerQuery(host: "missing.test", transport: .tcp))
                }
            }
            let asked = try await questions(server, resolver)
            #expect(asked.count { $0 == "_sip._tcp.missing.test 33" } == 1)
        }
    }

    @Test func `numeric hosts are answered within the call`() async throws {
        try await with([:]) { resolver, _ in
            let isAnswered = await Bench(resolver.loop).run { _ in
                var isAnswered = false
                resolver.resolve(ServerQuery(host: "[::1]", port: 1)) { result in
                    isAnswered = result == .success([ServerCandidate(.udp, Endpoint(IPAddress(high: 0, low: 1), 1))])
                }
                return isAnswered
            }
            #expect(isAnswered)
        }
    }

    @Test func `closing or releasing ends the searches`() async throws {
        // The resolver's time limit is longer than the test takes on a busy machine.
        try await with(Self.zones, timeout: .seconds(300)) { resolver, server in
            let search = Task {
                try await resolver.candidates(for: ServerQuery(host: "silent.test", transport: .udp))
            }
            _ = try await server.asked.next()
            await Bench(resolver.loop).run { _ in resolver.close() }
            await #expect(throws: ResolverError.closed) { try await search.value }
            await #expect(throws: ResolverError.closed) {
                try await resolver.candidates(for: ServerQuery(host: "one.test", transport: .udp))
            }
            let released = Mailbox<Result<[ServerCandidate], ResolverError>>()
            try await Bench(resolver.loop).run { bench in
                try DNSResolver(on: bench.loop, servers: [Endpoint(.loopbackV4, 9)]).resolve(
                    ServerQuery(host: "silent.test", port: 1)
                ) { released.put($0) }
            }
            try await released.expect(.failure(.closed))
        }
    }
}

extension DNSResolver {
    fileprivate func candidates(for query: ServerQuery) async throws(ResolverError) -> [ServerCandidate] {
        let outcome: Result<[ServerCandidate], ResolverError> = await withCheckedContinuation { continuation in
            loop.post { self.resolve(query) { continuation.resume(returning: $0) } }
        }
        return try outcome.get()
    }
}
