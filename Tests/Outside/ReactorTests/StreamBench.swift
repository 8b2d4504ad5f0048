import Addressing
import Crypto
import Glibc
import LoopTesting
import Reactor

/// An event on one connection, in the form that tests compare.
enum StreamEvent: Sendable, Equatable {
    case accepted(remote: Endpoint)
    case refused(remote: Endpoint)
    case connected
    case received([UInt8])
    case closed(StreamCloseReason)
}

/// A listener, and both sides of its connections, on one loop.
actor StreamBench {
    enum Side: Sendable { case server, client }

    let loop: EventLoop
    nonisolated let server = Mailbox<StreamEvent>()
    nonisolated let client = Mailbox<StreamEvent>()
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    var listener: StreamListener?
    var accepted: [StreamConnection] = []
    var connected: [StreamConnection] = []
    /// The server's handler uses at most this many bytes of input each time it runs.
    var appetite = Int.max
    /// The function that the server's handler calls after it has used some input.
    var reply: @Sendable (StreamConnection) -> Void = { _ in }
    /// The function that runs when the server has accepted and started a connection.
    private var started: @Sendable () -> Void = {}
    /// Whether the server's handler ends its turn when it has used ``appetite`` bytes.
    var endsTurns = false

    init(_ loop: EventLoop) { self.loop = loop }

    /// Runs a test with a new bench, and cleans up after it. The clean-up is needed, because actor, connections and
    /// handlers refer to each other.
    static func with(_ body: (StreamBench) async throws -> Void) async throws {
        try await withLoop { loop in
            let bench = StreamBench(loop)
            try await body(bench)
            await bench.close()
        }
    }

    func close() {
        listener = nil
        for connection in accepted + connected { connection.close() }
    }

    /// Time limits that are longer than a test takes.
    static let limits: StreamConnection.Limits = {
        var limits = StreamConnection.Limits()
        limits.openTimeout = .seconds(300)
        return limits
    }()

    func listen(
        _ endpoint: Endpoint = Endpoint(.loopbackV4, 0), tls: TLSContext? = nil, limit: Int = 100,
        limits: StreamConnection.Limits = StreamBench.limits, balancers: [AddressBlock] = []
    ) throws -> Endpoint {
        let listener = try StreamListener(
            boundTo: endpoint, on: loop, tls: tls, limit: limit, connectionLimits: limits
        ) { self.accept($0) }
        listener.balancers = balancers
        listener.unannouncedRefused = { self.server.put(.refused(remote: $0.remote)) }
        self.listener = listener
        return listener.local
    }

    func listen(unixPath: String) throws {
        listener = try StreamListener(unixPath: unixPath, on: loop, limit: 10) { self.accept($0) }
    }

    private func accept(_ connection: StreamConnection) {
        accepted.append(connection)
        server.put(.accepted(remote: connection.remote))
        try? connection.start(handlers(server))
        started()
    }

    func setStarted(_ started: @escaping @Sendable () -> Void) { self.started = started }

    func handlers(_ mailbox: Mailbox<StreamEvent>) -> StreamConnection.Handlers {
        StreamConnection.Handlers(
            connected: { _ in mailbox.put(.connected) },
            received: { connection, bytes in
                let used = min(bytes.count, self.appetite)
                mailbox.put(.received(unsafe bytes.withUnsafeBufferPointer { unsafe Array($0.prefix(used)) }))
                if mailbox === self.server { self.reply(connection) }
                if self.endsTurns, used < bytes.count { connection.endTurn() }
                return used
            },
            closed: { _, reason in mailbox.put(.closed(reason)) })
    }

    func connect(
        to target: Endpoint, from source: IPAddress? = nil, tls: TLSSession? = nil,
        limits: StreamConnection.Limits = .init()
    ) throws {
        connected.append(
            try StreamConnection.connect(
                to: target, from: source, on: loop, tls: tls, limits: limits, handlers: handlers(client)))
    }

    func setAppetite(_ count: Int, endsTurns: Bool = false) {
        appetite = count
        self.endsTurns = endsTurns
    }

    func setReply(_ reply: @escaping @Sendable (StreamConnection) -> Void) { self.reply = reply }

    func at<Result: Sendable>(
        _ side: Side, _ index: Int = 0, _ body: @Sendable (StreamConnection) throws -> Result
    ) rethrows -> Result {
        try body(side == .server ? accepted[index] : connected[index])
    }

    func release(_ side: Side) {
        if side == .server { accepted = [] } else { connected = [] }
    }

    func stopListening() { listener = nil }

    func setOpenTimeout(_ timeout: Duration) { listener?.connectionLimits.openTimeout = timeout }

    var listenerCount: Int { listener?.connectionCount ?? 0 }
}

extension Mailbox<StreamEvent> {
    /// Waits until `count` bytes have arrived, and returns them.
    func bytes(_ count: Int) async throws -> [UInt8] {
        var all: [UInt8] = []
        while all.count < count {
            guard case .received(let part) = try await next() else { return all }
            all += part
        }
        return all
    }
}

/// A peer that uses a blocking socket without a loop. A raw peer can close its writing side and keep reading, which a
/// ``StreamConnection`` never does.
struct RawPeer: ~Copyable {
    private let descriptor: Int32

    init(connectedTo target: Endpoint) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = target.port.bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = unsafe withUnsafeBytes(of: &address) {
            unsafe Glibc.connect(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, length)
        }
        guard result == 0 else { throw SystemError(call: "connect", code: errno) }
    }

    deinit { close(descriptor) }

    func endOutput() { shutdown(descriptor, Int32(SHUT_WR)) }

    func send(_ count: Int) {
        let bytes = [UInt8](repeating: 1, count: count)
        _ = unsafe write(descriptor, bytes, count)
    }

    /// Reads until the peer or the kernel ends the connection.
    ///
    /// - Returns: the bytes, and whether the connection was closed in order, not reset.
    func readToEnd() -> (bytes: [UInt8], endsWell: Bool) {
        var room = [UInt8](repeating: 0, count: 64 << 10)
        var bytes: [UInt8] = []
        while true {
            let more = unsafe read(descriptor, &room, room.count)
            guard more > 0 else { return (bytes, more == 0) }
            bytes += room[..<more]
        }
    }

    /// Reads until the connection ends, and returns the number of bytes.
    func countToEnd() -> Int {
        var room = [UInt8](repeating: 0, count: 64 << 10)
        var count = 0
        while true {
            let more = unsafe read(descriptor, &room, room.count)
            guard more > 0 else { return count }
            count += more
        }
    }
}
