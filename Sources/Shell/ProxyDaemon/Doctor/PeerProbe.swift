import Addressing
import Crypto
import ProxyCore
import ProxyRuntime
import Reactor
import Timekeeping

/// Sends one OPTIONS or REGISTER to a SIP server, and reports whether a response arrives.
///
/// The REGISTER has no contact and no password, so that it changes nothing at the server. The server's challenge to the
/// REGISTER shows the server's realm.
///
/// - The class is `@unchecked Sendable`, because the probe is used only on its loop.
final class PeerProbe: @unchecked Sendable {
    private let loop: EventLoop
    private let endpoint: Endpoint
    private let transport: Transport
    private let method: Method
    private let done: (PeerFact.Answer) -> Void
    /// The realm of the server's challenge to REGISTER; `nil` if the server sent no challenge.
    private(set) var realm: String?
    private var socket: UDPSocket?
    private var connection: StreamConnection?
    private var timer: LoopTimer?
    private var question: [UInt8] = []
    private var isOver = false
    private var end = Instant.distantFuture
    private var pause: Duration = .milliseconds(500)

    private static let patience: Duration = .seconds(4)

    enum Method: String {
        case options = "OPTIONS"
        case register = "REGISTER"
    }

    init(
        _ endpoint: Endpoint, _ transport: Transport, by method: Method = .options, on loop: EventLoop,
        done: @escaping (PeerFact.Answer) -> Void
    ) {
        self.method = method
        self.loop = loop
        self.endpoint = endpoint
        self.transport = transport
        self.done = done
    }

    /// Starts the probe; with TLS, the server's certificate must contain the name `host`.
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
        let user = method == .options ? "<sip:\(domain)>" : "<sip:sippushd-doctor@\(domain)>"
        let target = method == .options ? "sip:\(endpoint)" : "sip:\(domain)"
        question = Array(
            """
            \(method.rawValue) \(target) SIP/2.0\r
            Via: SIP/2.0/\(name) \(local);branch=z9hG4bK\(number);rport\r
            Max-Forwards: 70\r
            From: \(user);tag=\(number)\r
            To: \(method == .options ? "<sip:\(endpoint)>" : user)\r
            Call-ID: doctor-\(number)\r
            CSeq: 1 \(method.rawValue)\r
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
                    // The probe waits for the status code or, after REGISTER, for the whole head, because a response
                    // may arrive in pieces.
                    guard bytes.count >= Self.beginning, method == .options || Self.hasHead(bytes) else { return 0 }
                    received(bytes)
                    return bytes.count
                },
                closed: { [self] _, reason in finish(.failed(Self.words(reason))) }))
        timer?.arm(at: end)
    }

    /// Sends or repeats the request over UDP (RFC 3261 section 17.1.2.2), or ends the probe after its time limit.
    private func timePassed() {
        guard loop.now < end else { return finish(.silence) }
        socket?.queue(question, to: endpoint)
        timer?.arm(at: min(loop.now + pause, end))
        pause = pause * 2
    }

    /// The length in bytes of a status line up to the status code, such as `SIP/2.0 200`.
    private static let beginning = 11

    private func received(_ bytes: Span<UInt8>) {
        let text = Self.text(bytes.extracting(first: Self.beginning))
        guard text.hasPrefix("SIP/2.0 "), let status = Int(text.dropFirst(8)) else { return }
        // Only a final response to REGISTER can contain the server's challenge.
        guard method == .options || status >= 200 else { return }
        if method == .register { realm = Self.realm(in: Self.text(bytes)) }
        finish(.status(status))
    }

    private static func text(_ bytes: Span<UInt8>) -> String {
        String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self)
    }

    /// Whether the bytes contain the whole head of a response, or the probe has received enough bytes.
    private static func hasHead(_ bytes: Span<UInt8>) -> Bool {
        bytes.count > 8192 || text(bytes).contains("\r\n\r\n")
    }

    /// The realm of the first challenge in a response; `nil` if the response has no challenge.
    private static func realm(in text: String) -> String? {
        for line in text.split(separator: "\r\n") {
            let name = line.prefix { $0 != ":" }.lowercased()
            guard name == "www-authenticate" || name == "proxy-authenticate",
                let start = line.firstRange(of: "realm=\"")?.upperBound
            else { continue }
            return String(line[start...].prefix { $0 != "\"" }.prefix(255))
        }
        return nil
    }

    private func finish(_ answer: PeerFact.Answer) {
        guard !isOver else { return }
        isOver = true
        timer?.disarm()
        done(answer)
    }

    /// Closes the socket or connection; the handlers of the socket and connection must not call `close`.
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
        // The probe has no tunnel, because it uses no HTTP proxy.
        case .tunnel, .idle, .outputStalled, .outputOverflow, .inputOverflow, .finished: "the connection broke"
        }
    }
}
