import Addressing
import LoopTesting
import Reactor
import Testing

@Suite("PROXY headers on sockets", .timeLimit(.minutes(10)))
struct ProxyHeaderWaitTests {
    private static let header = "PROXY TCP4 192.0.2.1 192.0.2.2 40000 5060\r\n"
    private static let named = Endpoint(IPAddress(v4: 0xc000_0201), 40_000)

    /// Runs a test with a listener whose connections come from a load balancer.
    private func withBalancer(_ body: (StreamBench, Endpoint) async throws -> Void) async throws {
        try await StreamBench.with { bench in
            var limits = StreamConnection.Limits()
            limits.turn = .connections
            // The time limit is longer than a test takes, even on a busy machine.
            limits.openTimeout = .seconds(600)
            let block = try #require(AddressBlock("127.0.0.0/8"))
            try await body(bench, try await bench.listen(limits: limits, balancers: [block]))
        }
    }

    /// Connects to the listener and sends the text.
    ///
    /// - Returns: the address of the client's side.
    private func connect(_ index: Int, _ bench: StreamBench, to target: Endpoint, _ text: String) async throws
        -> Endpoint
    {
        try await bench.connect(to: target)
        try await bench.client.expect(.connected)
        await bench.at(.client, index) { $0.send(Array(text.utf8)) }
        return await bench.at(.client, index) { $0.local }
    }

    @Test(arguments: ["PROXY TCP4 192.0.2.1", "P", "\r\n\r\n\0\r\nQUIT\n\u{21}"])
    func `half a header keeps no other connection waiting, and ends with its connection`(half: String) async throws {
        try await withBalancer { bench, target in
            let own = try await connect(0, bench, to: target, half)
            _ = try await connect(1, bench, to: target, Self.header)
            try await bench.server.expect(.accepted(remote: Self.named), .connected)
            await bench.at(.client) { $0.close() }
            try await bench.server.expect(.refused(remote: own))
            #expect(await bench.listenerCount == 1)
        }
    }

    @Test func `a header that comes in pieces is accepted, and the bytes after it belong to the peer`() async throws {
        try await withBalancer { bench, target in
            let (first, rest) = (Self.header.prefix(30), Self.header.dropFirst(30))
            _ = try await connect(0, bench, to: target, String(first))
            await bench.at(.client) { $0.send(Array((rest + "more").utf8)) }
            try await bench.server.expect(.accepted(remote: Self.named), .connected)
            let bytes = try await bench.server.bytes(4)
            #expect(bytes == Array("more".utf8))
        }
    }

    @Test func `a balancer that only looks whether we are there is no fault`() async throws {
        try await withBalancer { bench, target in
            _ = try await connect(0, bench, to: target, "")
            await bench.at(.client) { $0.close() }
            let wrong = try await connect(1, bench, to: target, "INVITE sip:a@example.net SIP/2.0\r\n")
            try await bench.server.expect(.refused(remote: wrong))
        }
    }

    @Test func `a watch that is declared before the timer that ends it is a mistake`() async {
        await #expect(processExitsWith: .failure) {
            let loop = try EventLoop()
            let timer = try LoopTimer(on: loop, turn: .connections) {}
            _ = try FileWatch(descriptor: 0, on: loop, turn: .usual, until: timer) { _ in }
        }
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop()
            let timer = try LoopTimer(on: loop, turn: .usual) {}
            _ = try FileWatch(descriptor: 0, on: loop, turn: .connections, until: timer) { _ in }
        }
    }
}
