import Addressing
import Crypto
import LoopTesting
import PushSandbox
import Reactor
import Testing

/// A push sandbox and an HTTP/2 client on one event loop. The client knows just enough HTTP/2 to see the SETTINGS of
/// the server.
private actor SettingsBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private let semantics = ProviderSemantics { 0 }
    private var server: SandboxServer?
    private var client: StreamConnection?

    init(_ loop: EventLoop) { self.loop = loop }

    /// Connects to the sandbox. The mailbox `limits` gets each stream limit that the server sends, 0 for each response,
    /// and -1 at the end.
    func connect(_ streams: StreamLimits, limits: Mailbox<Int>) throws {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let server = SandboxServer(loop: loop, semantics: semantics, streams: streams)
        self.server = server
        let endpoint = try server.listen(
            tls: Endpoint(.loopbackV4, 0),
            TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key), protocols: ["h2"]))
        let context = try TLSContext.client(authority: .bytes(identity.certificate), protocols: ["h2"])
        client = try StreamConnection.connect(
            to: endpoint, on: loop, tls: context.makeClientSession(host: "127.0.0.1"),
            handlers: StreamConnection.Handlers(
                connected: { connection in
                    connection.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4, 0, 0, []))
                },
                received: { connection, bytes in
                    let (used, found) = Self.events(in: (0..<bytes.count).map { bytes[$0] })
                    for event in found {
                        if event > 0 { connection.send(Self.frame(4, 1, 0, [])) }
                        limits.put(event)
                    }
                    return used
                }, closed: { _, _ in limits.put(-1) }))
    }

    /// Sends a GET request on a stream. All fields of the request except the path are in HPACK's static table.
    func get(_ path: String, stream: UInt8) {
        let fields = [0x82, 0x87, 0x04, UInt8(path.utf8.count)] + Array(path.utf8) + [0x01, 1, UInt8(ascii: "h")]
        client?.send(Self.frame(1, 5, stream, fields))
    }

    func close() {
        client = nil
        server = nil
    }

    private static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload
    }

    /// Finds the stream limits in SETTINGS frames (parameter 3), and responses in HEADERS frames (as 0). The value
    /// `used` is the number of bytes in all whole frames.
    private static func events(in bytes: [UInt8]) -> (used: Int, found: [Int]) {
        var rest = bytes[...]
        var found: [Int] = []
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let length = head[..<3].reduce(0) { $0 << 8 | Int($1) }
            guard rest.count >= 9 + length else { break }
            let payload = Array(rest.dropFirst(9).prefix(length))
            rest = rest.dropFirst(9 + length)
            if head[3] == 1 { found.append(0) }
            guard head[3] == 4, head[4] & 1 == 0 else { continue }
            let entries = stride(from: 0, to: length - 5, by: 6).map { Array(payload[$0..<$0 + 6]) }
            found += entries.filter { $0[1] == 3 }.map { $0[2...].reduce(0) { $0 << 8 | Int($1) } }
        }
        return (bytes.count - rest.count, found)
    }
}

@Suite("Streams of a connection", .timeLimit(.minutes(10)))
struct StreamLimitTests {
    private func with(
        _ streams: StreamLimits, _ body: (SettingsBench, Mailbox<Int>) async throws -> Void
    ) async throws {
        try await withLoop { (loop: EventLoop) async throws in
            let bench = SettingsBench(loop)
            let limits = Mailbox<Int>()
            try await bench.connect(streams, limits: limits)
            try await body(bench, limits)
            await bench.close()
        }
    }

    @Test(arguments: [(StreamLimits(), 256), (StreamLimits(usual: 7), 7), (StreamLimits(usual: 7, first: 1), 1)])
    func `the limit is announced at the start`(streams: StreamLimits, expected: Int) async throws {
        try await with(streams) { _, limits in
            try await limits.expect(expected)
        }
    }

    @Test func `the first accepted push raises it, and only that`() async throws {
        try await with(StreamLimits(usual: 100, first: 1)) { bench, limits in
            var seen = [try await limits.next()]
            await bench.get("/hook/fail-503-x", stream: 1)
            seen.append(try await limits.next())
            await bench.get("/hook/a", stream: 3)
            for _ in 0..<2 { seen.append(try await limits.next()) }
            await bench.get("/hook/a", stream: 5)
            seen.append(try await limits.next())
            #expect(seen == [1, 0, 100, 0, 0])
        }
    }
}
