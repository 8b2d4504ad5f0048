import Addressing
import Crypto
import JSON
import LoopTesting
import PushSandbox
import Reactor
import Testing
import Timekeeping

/// The sandbox's feedback service and a client, on one loop.
private actor FeedbackBench {
    enum Event: Sendable {
        case bytes([UInt8])
        case closed
    }

    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    private let semantics = ProviderSemantics { 0 }
    private var server: FeedbackServer?
    private var client: StreamConnection?

    init(_ loop: EventLoop) { self.loop = loop }

    func start(_ identity: SelfSignedCertificate, app: SelfSignedCertificate) throws -> Endpoint {
        let server = FeedbackServer(loop: loop, semantics: semantics)
        self.server = server
        return try server.listen(
            Endpoint(.loopbackV4, 0),
            TLSContext.server(
                certificate: .bytes(identity.certificate), key: .bytes(identity.key),
                clientAuthority: .bytes(app.certificate)))
    }

    func control(_ method: String, _ body: String = "") throws -> (status: Int, json: JSONValue) {
        let answer = semantics.answer(
            SandboxRequest(
                method: method, target: "/sandbox/feedback", headers: [:], body: Array(body.utf8),
                version: "http/1.1", connection: 1))
        return (answer.status, try JSONValue(answer.body))
    }

    func connect(
        to endpoint: Endpoint, _ identity: SelfSignedCertificate, app: SelfSignedCertificate?, _ events: Mailbox<Event>
    ) throws {
        let context = try TLSContext.client(
            authority: .bytes(identity.certificate), certificate: app.map { .bytes($0.certificate + $0.key) },
            key: app.map { .bytes($0.certificate + $0.key) })
        client = try StreamConnection.connect(
            to: endpoint, on: loop, tls: context.makeClientSession(host: "127.0.0.1"),
            handlers: StreamConnection.Handlers(
                connected: { _ in },
                received: { _, bytes in
                    events.put(.bytes((0..<bytes.count).map { bytes[$0] }))
                    return bytes.count
                }, closed: { _, _ in events.put(.closed) }))
    }

    func close() {
        client = nil
        server = nil
    }
}

@Suite("Apple's feedback service", .timeLimit(.minutes(10)))
struct FeedbackServerTests {
    private static let token = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    private static let list =
        #"{"records":[{"token":"\#(token)","time":1623753491},{"token":"\#(token.uppercased())","time":2147483649}]"#
    /// The records of the test's list of dead tokens, in hexadecimal.
    private static let records = "60c883130020\(token)" + "800000010020\(token)"

    /// Puts a list into the feedback service, and returns the pieces that a client reads until the connection ends.
    private func read(_ body: String, showsCertificate: Bool = true) async throws -> (
        pieces: [[UInt8]], left: JSONValue
    ) {
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let app = try SelfSignedCertificate(hosts: ["app"])
        return try await withLoop { loop in
            let bench = FeedbackBench(loop)
            let endpoint = try await bench.start(identity, app: app)
            #expect(try await bench.control("PUT", body).status == 200)
            let events = Mailbox<FeedbackBench.Event>()
            try await bench.connect(to: endpoint, identity, app: showsCertificate ? app : nil, events)
            var pieces: [[UInt8]] = []
            while case .bytes(let bytes) = try await events.next() { pieces.append(bytes) }
            let left = try await bench.control("GET").json
            await bench.close()
            return (pieces, left)
        }
    }

    private func hex(_ pieces: [[UInt8]]) -> String {
        pieces.joined().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    @Test func `a client gets the list once and the connection ends`() async throws {
        let read = try await read(Self.list + "}")
        #expect(hex(read.pieces) == Self.records)
        #expect(read.left["records"]?.array == [])
    }

    @Test(arguments: [1, 7, 38, 64])
    func `records arrive in slices`(slice: Int) async throws {
        let read = try await read(Self.list + ",\"slice\":\(slice)}")
        #expect(hex(read.pieces) == Self.records)
        #expect(read.pieces.count > 1 && read.pieces.first?.count == slice)
    }

    @Test func `the last record may be partial`() async throws {
        let read = try await read(Self.list + #","partial":9}"#)
        #expect(hex(read.pieces) == Self.records + "800000010020ffffff")
        #expect(read.left["partial"]?.integer == 0)
    }

    @Test func `an empty list is an answer`() async throws {
        let read = try await read("{}")
        #expect(read.pieces.isEmpty)
    }

    @Test func `a client without a certificate gets nothing`() async throws {
        let read = try await read(Self.list + "}", showsCertificate: false)
        #expect(read.pieces.isEmpty && read.left["records"]?.array?.count == 2)
    }

    @Test func `the list is filled and emptied over the controls`() async throws {
        try await withLoop { (loop: EventLoop) async throws in
            let bench = FeedbackBench(loop)
            func count() async throws -> Int? { try await bench.control("GET").json["records"]?.array?.count }
            let one = #"{"records":[{"token":"00ff","time":1}]}"#
            #expect(try await bench.control("POST", one).status == 200)
            #expect(try await bench.control("POST", one).status == 200)
            #expect(try await count() == 2)
            #expect(try await bench.control("PUT", one).status == 200)
            #expect(try await count() == 1)
            #expect(try await bench.control("DELETE").status == 200)
            #expect(try await count() == 0)
            #expect(try await bench.control("PATCH").status == 405)
        }
    }

    @Test(arguments: [
        "", "[]", #"{"record":[]}"#, #"{"records":1}"#, #"{"records":[1]}"#, #"{"records":[{"token":"0","time":1}]}"#,
        #"{"records":[{"token":"","time":1}]}"#, #"{"records":[{"token":"00","time":-1}]}"#,
        #"{"records":[{"token":"00","time":4294967296}]}"#, #"{"records":[{"token":"00"}]}"#, #"{"slice":0}"#,
        #"{"partial":38}"#,
    ])
    func `an invalid list changes nothing`(body: String) async throws {
        try await withLoop { (loop: EventLoop) async throws in
            let bench = FeedbackBench(loop)
            #expect(try await bench.control("PUT", Self.list + "}").status == 200)
            #expect(try await bench.control("POST", body).status == 400)
            #expect(try await bench.control("PUT", body).status == 400)
            #expect(try await bench.control("GET").json["records"]?.array?.count == 2)
        }
    }
}
