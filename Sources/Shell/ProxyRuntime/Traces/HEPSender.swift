import Addressing
import Crypto
import Reactor
import Resolver
import Telemetry
import Timekeeping

/// Sends HEP packets to the collector, and never waits for the collector. A packet that cannot be sent immediately is
/// dropped and counted.
///
/// After a failure, the link is opened again after a pause, which grows from one second to a minute.
final class HEPSender {
    private enum Link {
        case closed
        case opening
        case datagrams(UDPSocket)
        case stream(StreamConnection)
    }

    private let collector: HEPCollector
    private let authority: PEM?
    private let loop: EventLoop
    private let log: Log
    private var resolver: DNSResolver?
    private var link = Link.closed
    /// The time at which the present link was opened; the distant future while no link is open.
    private var openedAt = Instant.distantFuture
    private var pause = HEPSender.shortestPause
    private var timer: LoopTimer?
    private var isOver = false
    /// Whether the daemon has logged that the HEP collector is away.
    private var isAway = false
    private var awayLog = LogRateLimit(burst: 3, per: .seconds(600))
    private var slowLog = LogRateLimit(burst: 1, per: .seconds(600))
    private(set) var figures = CounterSet()
    /// The counters of the UDP socket that ``figures`` already contains.
    private var noted = DatagramCounters()
    private var received = 0

    private static let shortestPause: Duration = .seconds(1)
    private static let longestPause: Duration = .seconds(60)
    /// The time after which a new link to the collector is treated as good.
    private static let goodAfter: Duration = .seconds(10)
    /// The maximum number of bytes that wait for a collector over TCP or TLS.
    static let outputLimit = 1 << 20
    /// The maximum number of datagrams to the collector for which the kernel has no room yet.
    private static let queueLimit = 256
    /// The number of bytes that a collector may send over one connection, although HEP has no answers.
    private static let inputLimit = 64 << 10

    init(to collector: HEPCollector, authority: PEM?, on loop: EventLoop, log: Log) throws(SystemError) {
        self.collector = collector
        self.authority = authority
        self.loop = loop
        self.log = log
        timer = try LoopTimer(on: loop) { [weak self] in self?.open() }
    }

    /// The number of bytes that wait for the collector over TCP or TLS.
    var waitingBytes: Int {
        guard case .stream(let stream) = link else { return 0 }
        return stream.outputCount
    }

    /// Whether the sender sends each packet as a datagram.
    var isDatagram: Bool { collector.link == .udp }

    /// Opens the link to the HEP collector.
    func start() { open() }

    func send(_ packet: [UInt8]) {
        switch link {
        case .closed, .opening: figures.count(.hepDropped)
        case .datagrams(let socket):
            socket.queue(packet, to: socket.peer)
            note(socket.counters)
        case .stream(let stream):
            guard stream.outputCount + packet.count <= Self.outputLimit else { return dropped() }
            stream.send(packet)
            figures.count(.hepSent)
        }
        // The kernel reports a UDP port without listener only after the first datagram.
        if isAway, loop.now - openedAt > Self.goodAfter, !isDatagram || noted.sent >= 2 { cameBack() }
    }

    private func note(_ counters: DatagramCounters) {
        let failures = counters.sendFailures - noted.sendFailures
        let dropped = counters.dropped - noted.dropped
        figures.count(.hepSent, by: counters.sent - noted.sent)
        figures.count(.hepDropped, by: failures + dropped)
        noted = counters
        if dropped > 0 { tellSlow() }
        // The kernel reports such a failure for a datagram without a route, for a forbidden datagram, and for a closed
        // port at the receiver.
        if failures > 0 { failed("the network or the host refuses the packets") }
    }

    private func dropped() {
        figures.count(.hepDropped)
        tellSlow()
    }

    private func tellSlow() {
        guard let suppressed = slowLog.admit(now: loop.now) else { return }
        log.warning(
            "the HEP collector reads too slowly, so packets are dropped",
            [.target: .described(collector), .suppressed: .number(suppressed)])
    }

    private func cameBack() {
        isAway = false
        pause = Self.shortestPause
        log.notice("the HEP collector accepts packets again", [.target: .described(collector)])
    }

    // MARK: The link

    private func open() {
        guard !isOver, case .closed = link else { return }
        link = .opening
        if let address = IPAddress(collector.host) { return open(Endpoint(address, collector.port)) }
        if resolver == nil { resolver = try? DNSResolver(on: loop) }
        guard let resolver else { return failed("the resolver cannot be created") }
        // The query has port and transport, so that the resolver looks up only addresses.
        let query = ServerQuery(host: collector.host, port: collector.port, transport: .tcp)
        resolver.resolve(query) { [weak self] result in
            guard let self, !isOver else { return }
            switch result {
            case .success(let found):
                guard let first = found.first else { return failed("DNS has no address for it") }
                open(first.endpoint)
            case .failure(let error): failed(error.description)
            }
        }
    }

    private func open(_ endpoint: Endpoint) {
        do {
            switch collector.link {
            case .udp:
                noted = DatagramCounters()
                link = .datagrams(try UDPSocket(sendingTo: endpoint, on: loop, queueLimit: Self.queueLimit))
                openedAt = loop.now
            case .tcp: try connect(to: endpoint, tls: nil)
            case .tls:
                let context = try TLSContext.client(authority: authority)
                try connect(to: endpoint, tls: try context.makeClientSession(host: collector.host))
            }
        } catch {
            failed("\(error)")
        }
    }

    private func connect(to endpoint: Endpoint, tls: TLSSession?) throws(SystemError) {
        var limits = StreamConnection.Limits()
        // Packets are dropped before the connection's limit of waiting output is reached.
        limits.output = 2 * Self.outputLimit
        received = 0
        let handlers = StreamConnection.Handlers(
            connected: { [weak self] stream in self?.connected(stream) },
            received: { [weak self] _, bytes in
                self?.tookAnswer(bytes.count)
                return bytes.count
            },
            closed: { [weak self] _, reason in self?.closed(reason) })
        connecting = try StreamConnection.connect(to: endpoint, on: loop, tls: tls, limits: limits, handlers: handlers)
    }

    /// The connection to the collector that is being opened.
    private var connecting: StreamConnection?

    private func connected(_ stream: StreamConnection) {
        connecting = nil
        link = .stream(stream)
        openedAt = loop.now
    }

    private func tookAnswer(_ count: Int) {
        received += count
        if received > Self.inputLimit { failed("the collector sends data, although HEP has no answers") }
    }

    private func closed(_ reason: StreamCloseReason) {
        let text =
            switch reason {
            case .peerClosed: "the collector closed the connection"
            case .system(let error): error.reason
            case .tls(let text): text
            case .openTimeout: "the connection was not opened in time"
            case .outputStalled: "the collector does not read"
            default: "the connection ended"
            }
        failed(text)
    }

    /// Closes the link to the collector, and opens it again after a pause.
    private func failed(_ reason: String) {
        guard !isOver else { return }
        if case .stream(let stream) = link { countLost(stream) }
        let wasGood = loop.now - openedAt > Self.goodAfter
        release()
        if wasGood { pause = Self.shortestPause }
        timer?.arm(at: loop.now + pause)
        pause = min(pause * 2, Self.longestPause)
        guard !isAway, let suppressed = awayLog.admit(now: loop.now) else { return }
        isAway = true
        log.warning(
            "HEP packets do not reach the collector",
            [
                .target: .described(collector), .reason: .text(reason), .setting: "hep.collector",
                .suppressed: .number(suppressed),
            ])
    }

    /// Counts one lost packet when a connection ends with unsent output. The number of packets in the lost output is
    /// unknown.
    private func countLost(_ stream: StreamConnection) {
        if stream.outputCount > 0 { figures.count(.hepDropped) }
    }

    private func release() {
        // The loop releases the link later, because one of the link's functions may be running now.
        let (old, opening) = (link, connecting)
        link = .closed
        connecting = nil
        openedAt = .distantFuture
        loop.post { Self.close(old, opening) }
    }

    private static func close(_ link: Link, _ opening: StreamConnection?) {
        opening?.close()
        switch link {
        case .datagrams(let socket): socket.close()
        case .stream(let stream): stream.close(flushing: true)
        case .closed, .opening: break
        }
    }

    /// Closes the link for good; the sender cannot be used again.
    func close() {
        isOver = true
        timer = nil
        release()
        resolver?.close()
    }
}
