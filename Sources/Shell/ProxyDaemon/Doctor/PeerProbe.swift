import Addressing
import Crypto
import ProxyCore
import ProxyRuntime
import Reactor
import Timekeeping

/// Asks one SIP server by OPTIONS, and waits for any response.
///
/// - The type is `@unchecked Sendable`, because it is used only on the loop.
final class PeerProbe: @unchecked Sendable {
    private let loop: EventLoop
    private let endpoint: Endpoint
    private let transport: Transport
    private let done: (PeerFact.Answer) -> Void
    private var socket: UDPSocket?
    private var connection: StreamConnection?
    private var timer: LoopTimer?
    private var question: [UInt8] = []
    private var isOver = false
    private var end = Instant.distantFuture
    private var pause: Duration = .milliseconds(500)

    private static let patience: Duration = .seconds(4)

    init(_ endpoint: Endpoint, _ transport: Transport, on loop: EventLoop, done: @escaping (PeerFact.Answer) -> Void) {
        self.loop = loop
        self.endpoint = endpoint
        self.transport = transport
        self.done = done
    }

    /// Starts the probe. `host` is the name that the peer's certificate must contain.
    func start(host: String, domain: String, tls: TLSContext?) {
        end = loop.now + Self.patience
        do {
            timer = try LoopTimer(on: loop) { [self] in timePassed() }
            if transport == .udp {
                try ask(domain)
            } else {
                try connect(host: host, domain: domain, tls)
            }
        } catch let error as SystemError {
            finish(.failed(error.reason))
        } catch {
            finish(.failed("\(error)"))
        }
    }

    private var source: IPAddress {
        let isV4 = endpoint.address.isV4
        guard !endpoint.address.isLoopback else { return isV4 ? .loopbackV4 : IPAddress(high: 0, low: 1) }
        return HostAddress.primary(isV4: isV4)
    }

    private func write(_ local: Endpoint, _ domain: String) {
        let number = String(UInt64.random(in: .min ... .max), radix: 36)
        let name = transport == .udp ? "UDP" : transport == .tls ? "TLS" : "TCP"
        question = Array(
            """
            OPTIONS sip:\(endpoint) SIP/2.0\r
            Via: SIP/2.0/\(name) \(local);branch=z9hG4bK\(number);rport\r
            Max-Forwards: 70\r
            From: <sip:\(domain)>;tag=\(number)\r
            To: <sip:\(endpoint)>\r
            Call-ID: doctor-\(number)\r
            CSeq: 1 OPTIONS\r
            Accept: application/sdp\r
            User-Agent: sippushd\r
            Content-Length: 0\r
            \r

            """.utf8)
    }

    private func ask(_ domain: String) throws(SystemError) {
        let any = endpoint.address.isV4 ? IPAddress.anyV4 : IPAddress(high: 0, low: 0)
        let socket = try UDPSocket(boundTo: Endpoint(any, 0), on: loop)
        self.socket = socket
        write(Endpoint(source, socket.local.port), domain)
        try socket.receive { [weak self] batch in
            for index in 0..<batch.count {
                batch.withBytes(at: index) { bytes in self?.received(bytes) }
            }
        }
        timePassed()
    }

    private func connect(host: String, domain: String, _ tls: TLSContext?) throws {
        let session = transport == .tls ? try tls?.makeClientSession(host: host) : nil
        connection = try StreamConnection.connect(
            to: endpoint, on: loop, tls: session,
            handlers: StreamConnection.Handlers(
                connected: { [self] connection in
                    write(connection.local, domain)
                    connection.send(question)
                },
                received: { [self] _, bytes in
                    // The beginning of the status line may arrive in pieces.
                    guard bytes.count >= Self.beginning else { return 0 }
                    received(bytes)
                    return bytes.count
                },
                closed: { [self] _, reason in finish(.failed(Self.words(reason))) }))
        timer?.arm(at: end)
    }

    /// Sends the OPTIONS again over UDP, as RFC 3261 section 17.1.2.2 demands.
    private func timePassed() {
        guard loop.now < end else { return finish(.silence) }
        socket?.queue(question, to: endpoint)
        timer?.arm(at: min(loop.now + pause, end))
        pause = pause * 2
    }

    /// The length of the beginning of a status line, such as `SIP/2.0 200`, in bytes.
    private static let beginning = 11

    private func received(_ bytes: Span<UInt8>) {
        var line: [UInt8] = []
        for index in bytes.indices.prefix(Self.beginning) { line.append(bytes[index]) }
        let text = String(decoding: line, as: UTF8.self)
        guard text.hasPrefix("SIP/2.0 "), let status = Int(text.dropFirst(8)) else { return }
        finish(.status(status))
    }

    private func finish(_ answer: PeerFact.Answer) {
        guard !isOver else { return }
        isOver = true
        timer?.disarm()
        done(answer)
    }

    /// Closes the socket or connection. Do not call this function from within a handler.
    func close() {
        socket?.close()
        connection?.close()
        timer = nil
    }

    private static func words(_ reason: StreamCloseReason) -> String {
        switch reason {
        case .peerClosed: "it closes the connection"
        case .system(let error): error.reason
        case .tls(let words): "the TLS handshake failed: \(words)"
        case .openTimeout: "no connection in time"
        // The probe uses no proxy, so it has no tunnel.
        case .tunnel, .idle, .outputStalled, .outputOverflow, .inputOverflow, .finished: "the connection broke"
        }
    }
}
