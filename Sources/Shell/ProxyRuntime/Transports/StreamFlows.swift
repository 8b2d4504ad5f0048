package import Addressing
import Bytes
import Crypto
import ProxyCore
package import Reactor
package import Routing
import SIPMessage
package import Telemetry
import Timekeeping
import WebSocket

/// Keeps the TCP, TLS and WebSocket connections: cuts input into messages, finds a flow's connection, and limits
/// unauthenticated connections (T17).
///
/// - The class is `@unchecked Sendable`, because only the event loop of its shard uses it.
package final class StreamFlows: @unchecked Sendable {
    private let loop: EventLoop
    private let log: Log
    private(set) weak var shard: ProxyShard?
    private var sources = OutgoingAddresses([])
    private(set) var connections: [UInt64: FlowConnection] = [:]
    /// For each flow to a remote address, the number of the connection that serves the flow. The daemon opened most
    /// connections in the table; peers opened the others.
    private var outgoing: [Flow: UInt64] = [:]
    private let tls: TLSSetup
    /// Decides which connections may stay, and for how long.
    var admission: FlowAdmission
    /// The timer of the next time limit of an unauthenticated connection.
    private var timer: LoopTimer?
    /// The pings by which the daemon detects dead WebSocket connections.
    private var pings: WebSocketPings?
    private var counters = CounterSet()
    /// Serves the connections on which another node speaks HTTP instead of SIP.
    package var servesNode: ((StreamConnection) -> Void)?
    /// Whether only trusted peers may connect.
    package var refusesStrangers = false
    private var logLimit = LogRateLimit()
    private var handshakeLog = LogRateLimit(burst: 5, per: .seconds(60))

    /// The time without traffic after which a connection is closed; it is long, because phones keep silent connections
    /// open.
    private static let quiet: Duration = .seconds(3600)
    /// The maximum time for opening a connection. After four seconds, the daemon tries another route, because the
    /// caller waits.
    private static let connecting: Duration = .seconds(4)
    /// The limits in bytes for output that waits because a peer does not read. If more bytes than `mark` wait, the
    /// daemon stops reading from the peer until the peer has read some output (T17.5). If more bytes than `limit` wait,
    /// the daemon closes the connection. An authenticated peer has higher limits, because it may have sent many
    /// requests together or serve many phones.
    private enum Output {
        static let mark = 256 << 10
        static let limit = 512 << 10
        static let provedMark = 1 << 20
        static let provedLimit = 8 << 20
    }
    /// The number of expired connections that are closed before the loop serves other connections.
    private static let timesInARow = 8

    package init(
        loop: EventLoop, limits: FlowLimits = FlowLimits(), tls: TLSSetup = TLSSetup(),
        pingInterval: Duration = WebSocketSettings().pingInterval, log: Log
    ) throws(SystemError) {
        self.loop = loop
        self.log = log
        self.tls = tls
        admission = FlowAdmission(limits)
        timer = try LoopTimer(on: loop, turn: .connections) { [weak self] in self?.timeIsUp() }
        pings = try WebSocketPings(on: loop, every: pingInterval) { [weak self] number in self?.ping(number) ?? false }
    }

    /// Starts to accept connections of the given listeners. Connections that the daemon opens have the address of one
    /// of `listeners` as source.
    package func start(for shard: ProxyShard, listeners: [Listener]) {
        self.shard = shard
        sources = OutgoingAddresses(listeners)
        tls.usesForNodes(listeners.first(where: \.isForNodes)?.number)
        loop.handshakeLimit = HandshakeLimit(
            perSecond: admission.limits.handshakesPerSource,
            isExempt: { [weak self] peer in
                let flow = Flow(transport: .tls, listener: 0, connection: 0, remote: peer)
                return self?.shard?.assumeIsolated { $0.isTrusted(flow) } ?? false
            },
            refused: { [weak self] peer in self?.refusedHandshake(peer) })
    }

    private func refusedHandshake(_ peer: Endpoint) {
        counters.count(.flowRefusedHandshake)
        guard let suppressed = handshakeLog.admit(now: loop.now) else { return }
        log.warning(
            "too many TLS handshakes came from one source address, so the daemon closes further connections from this address",
            [
                .source: .described(peer), .suppressed: .number(suppressed),
                .setting: .text("limits.handshakes-per-source"),
            ])
    }

    /// Applies changed limits to new and existing connections. Only the time limit of waiting output stays the same for
    /// existing connections.
    package func limitsChanged(_ limits: FlowLimits) {
        admission.limits = limits
        loop.handshakeLimit?.changed(perSecond: limits.handshakesPerSource)
        armTimer()
    }

    /// Returns the limits of the connections that a listener accepts.
    package static func streamLimits(_ limits: FlowLimits) -> StreamConnection.Limits {
        var streams = StreamConnection.Limits()
        streams.output = Output.limit
        streams.outputMark = Output.mark
        streams.outputTimeout = limits.output
        streams.answersAfterEnd = true
        streams.turn = .connections
        return streams
    }

    /// Sends bytes on the flow's connection. A flow with connection number 0 uses any connection to its remote address,
    /// or a new connection.
    ///
    /// - Returns: false if the flow's connection was closed, or no connection could be opened.
    func send(_ bytes: [UInt8], on flow: Flow) -> Bool {
        let number = flow.connection != 0 ? flow.connection : outgoing[sources.wish(flow)]
        if let number, let connected = connections[number] {
            connected.send(bytes)
            return true
        }
        guard flow.connection == 0, !flow.transport.isWebSocket else { return false }
        return connect(flow, sending: bytes)
    }

    /// The local address of the connection that ``send(_:on:)`` uses for the flow; `nil` if no connection exists.
    func local(of flow: Flow) -> Endpoint? {
        let number = flow.connection != 0 ? flow.connection : outgoing[sources.wish(flow)]
        return number.flatMap { connections[$0] }?.stream.local
    }

    // MARK: New connections

    /// Admits or closes a connection that a listener accepted.
    package func accepted(_ stream: StreamConnection, by listener: UInt16, transport: Transport = .tcp) {
        guard let connected = admitted(stream, by: listener, transport) else { return }
        do {
            try connected.stream.start(handlers)
        } catch {
            ended(stream)
        }
    }

    /// Accepts or closes a SIP connection after its WebSocket handshake. The parameter `early` is the input that
    /// followed the handshake.
    package func accepted(
        webSocket stream: StreamConnection, early: [UInt8], by listener: UInt16, transport: Transport
    ) {
        guard stream.isOpen, let connected = admitted(stream, by: listener, transport) else { return }
        stream.outputLimit = Output.limit
        stream.outputMark = Output.mark
        // The daemon waits for the peer to close the connection, so that the peer can read the reason.
        stream.waitsForPeersEnd = true
        if connected.standing.isUnproved == false { trust(stream) }
        stream.handOver(to: handlers, unread: early)
        opened(stream)
        pings?.add(stream.id)
    }

    private func admitted(
        _ stream: StreamConnection, by listener: UInt16, _ transport: Transport
    ) -> FlowConnection? {
        let flow = Flow(transport: transport, listener: listener, connection: stream.id, remote: stream.remote)
        // A node shows its certificate in the handshake, and counts as a stranger until then.
        let isForNodes = tls.isForNodes(flow)
        let isTrusted = !isForNodes && shard?.assumeIsolated { $0.isTrusted(flow) } ?? false
        guard !refusesStrangers || isTrusted || isForNodes else {
            refuse(stream, .flowRefusedFull)
            return nil
        }
        switch admission.verdict(on: stream.remote.address.source, isTrusted: isTrusted) {
        case .refusedForSource:
            refuse(stream, .flowRefusedSource)
            return nil
        case .refusedForTable:
            refuse(stream, .flowRefusedFull)
            return nil
        case .admittedFor(let oldest):
            if let oldest = connections[oldest] { drop(oldest, .flowGaveWay) }
        case .admitted: break
        }
        var webSocket: WebSocketSession?
        if transport.isWebSocket {
            webSocket = WebSocketSession(messageLimit: Self.longestMessage)
            guard webSocket != nil else {
                refuseWithoutMemory(stream)
                return nil
            }
        }
        let standing = admission.added(
            stream.id, from: stream.remote.address.source, isTrusted: isTrusted, now: loop.now)
        if isTrusted { trust(stream) }
        if isTrusted || isForNodes {
            // The loop serves connections of trusted peers separately from connections of phones, so that calls of the
            // PBX do not wait for phones.
            stream.turn = .usual
        }
        stream.setIdleTimeout(Self.quiet)
        let connected = FlowConnection(
            stream: stream, flow: flow, isOutgoing: false, standing: standing, webSocket: webSocket)
        add(connected)
        armTimer()
        return connected
    }

    private static let longestMessage = ReaderLimits().head + ReaderLimits().body

    private func connect(_ flow: Flow, sending bytes: [UInt8]) -> Bool {
        switch admission.verdictOnOutgoing() {
        case .admittedFor(let oldest):
            if let oldest = connections[oldest] { drop(oldest, .flowGaveWay) }
        case .admitted: break
        case .refusedForSource, .refusedForTable:
            counters.count(.flowRefusedFull)
            return false
        }
        var limits = Self.streamLimits(admission.limits)
        limits.output = Output.provedLimit
        limits.outputMark = Output.provedMark
        limits.openTimeout = Self.connecting
        limits.turn = .usual
        var session: TLSSession?
        if flow.transport.isSecure {
            guard let made = tls.session(for: flow) else {
                log.error(
                    "the daemon cannot send a request over TLS, because TLS is not configured in the settings",
                    [.target: .described(flow.remote)])
                return false
            }
            session = made
        }
        do {
            let stream = try StreamConnection.connect(
                to: flow.remote, from: sources.address(of: flow), on: loop, tls: session, limits: limits,
                handlers: handlers)
            let own = flow.on(connection: stream.id)
            stream.setIdleTimeout(Self.quiet)
            add(FlowConnection(stream: stream, flow: own, isOutgoing: true, standing: admission.addedOutgoing()))
            outgoing[sources.wish(flow)] = stream.id
            stream.send(bytes)
            return true
        } catch {
            log.warning(
                "the daemon cannot open a TCP or TLS connection",
                [.target: .described(flow.remote), .error: .described(error)])
            return false
        }
    }

    private func add(_ connected: FlowConnection) {
        counters.count(.flowOpened)
        connections[connected.stream.id] = connected
    }

    /// Notes that a user has authenticated on the flow. The parameter `account` is the account of the password; `nil`
    /// if no password is required.
    func proved(_ flow: Flow, by account: Int?) {
        guard let connected = connections[flow.connection], connected.standing.isUnproved,
            admission.proved(&connected.standing, by: account)
        else { return }
        if connected.stream.tls != nil { loop.handshakeLimit?.proved(connected.stream.remote, now: loop.now) }
        trust(connected.stream)
    }

    /// Uses the peer's connection for later messages to the address `place` (RFC 5923), unless the address already has
    /// a connection.
    func reuse(_ flow: Flow, as place: Endpoint, _ server: ServerNumber) {
        guard let connected = connections[flow.connection] else { return }
        let asked = Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: place, server: server)
        let wish = sources.wish(asked)
        // A node's certificate names the address at which the node accepts connections, and no port of an alias.
        guard outgoing[wish] == nil, !tls.isForNodes(flow) else { return }
        outgoing[wish] = flow.connection
        connected.alias = asked
    }

    /// Sets how long a connection can be silent before it is closed: the Flow-Timer and ten more seconds (RFC 5626
    /// section 4.4.1).
    func expectLife(on flow: Flow, every pause: Duration) {
        connections[flow.connection]?.stream.setIdleTimeout(min(pause + .seconds(10), Self.quiet))
    }

    private func trust(_ stream: StreamConnection) {
        stream.outputLimit = Output.provedLimit
        stream.outputMark = Output.provedMark
    }

    package var figures: CounterSet {
        var figures = counters
        figures.set(.connections, to: connections.count)
        return figures
    }

    /// The event handlers that all connections share.
    private lazy var handlers = StreamConnection.Handlers(
        connected: { [weak self] stream in self?.opened(stream) },
        received: { [weak self] stream, bytes in self?.received(bytes, on: stream) ?? bytes.count },
        closed: { [weak self] stream, reason in self?.closed(stream, reason) })

    /// Handles the end of a TLS handshake; the peer's certificate can make the peer trusted (RFC 5922 section 7).
    private func opened(_ stream: StreamConnection) {
        guard let session = stream.tls, let connected = connections[stream.id], let shard else { return }
        counters.count(session.isResumed ? .tlsResumed : .tlsFull)
        // The TLS contexts for nodes refuse every other certificate, and the names of a node give it no other rights.
        if tls.isForNodes(connected.flow) {
            let flow = connected.flow
            guard session.hasProvedPeer else { return drop(connected, .flowNotProved) }
            if session.applicationProtocol == "http/1.1", !connected.isOutgoing, let servesNode {
                ended(stream)
                return servesNode(stream)
            }
            // The name has no dot, so that no trusted peer can have it.
            _ = shard.assumeIsolated { $0.namesProved(["node"], on: flow) }
            connected.isEstablished = true
            return proved(flow, by: nil)
        }
        let names = session.peerNames
        guard !names.isEmpty else { return }
        let flow = connected.flow
        guard shard.assumeIsolated({ $0.namesProved(names, on: flow) }) else { return }
        proved(flow, by: nil)
    }

    private func closed(_ stream: StreamConnection, _ reason: StreamCloseReason) {
        switch reason {
        case .tls(let text): refused(stream, text)
        case .idle: counters.count(.flowIdle)
        case .outputStalled, .outputOverflow: note(.flowNotReading, of: stream)
        case .peerClosed, .system, .tunnel, .openTimeout, .inputOverflow, .finished: break
        }
        ended(stream)
    }

    /// Notes that a load balancer's connection was closed because it did not begin with a PROXY header.
    package func unannounced(_ stream: StreamConnection) { note(.flowNoHeader, of: stream) }

    private func refuse(_ stream: StreamConnection, _ reason: Counter) {
        note(reason, of: stream)
        stream.close()
    }

    private func refuseWithoutMemory(_ stream: StreamConnection) {
        counters.count(.flowRefusedFull)
        stream.close()
        guard let suppressed = logLimit.admit(now: loop.now) else { return }
        log.error(
            "a WebSocket connection was closed, because the daemon could not allocate memory for it",
            [.source: .described(stream.remote), .suppressed: .number(suppressed)])
    }

    private func drop(_ connected: FlowConnection, _ reason: Counter) {
        note(reason, of: connected.stream)
        connected.webSocket?.close(.policyViolation)
        connected.flush()
        connected.stream.close(flushing: connected.webSocket != nil)
        ended(connected.stream)
    }

    /// Logs and counts a failed TLS handshake, for example because a server's certificate is invalid or a client does
    /// not use TLS.
    private func refused(_ stream: StreamConnection, _ text: String) {
        let isServer = connections[stream.id].map { !$0.isOutgoing } ?? true
        counters.count(isServer ? .tlsRefusedIncoming : .tlsRefusedOutgoing)
        guard let suppressed = logLimit.admit(now: loop.now) else { return }
        log.info(
            "TLS handshake failed",
            [
                isServer ? .source : .target: .described(stream.remote), .reason: .text(text),
                .suppressed: .number(suppressed),
            ])
    }

    private func note(_ reason: Counter, of stream: StreamConnection) {
        counters.count(reason)
        guard let suppressed = logLimit.admit(now: loop.now) else { return }
        log.info(
            "the daemon refused or closed a connection",
            [
                .source: .described(stream.remote), .reason: .text(Self.word(reason)),
                .suppressed: .number(suppressed),
            ])
    }

    /// The reason's name in the metrics: a counter with the label `reason="gave-way"` gives `gave-way`.
    private static func word(_ reason: Counter) -> String {
        reason.name.labels.split(separator: "\"").last.map(String.init) ?? ""
    }

    // MARK: Time

    private func timeIsUp() {
        let now = loop.now
        for _ in 0..<Self.timesInARow {
            guard let (number, cause) = admission.expired(now: now) else { break }
            guard let connected = connections[number] else { continue }
            drop(connected, cause == .noRequest ? .flowNoRequest : .flowNotProved)
        }
        armTimer()
    }

    private func armTimer() {
        if let deadline = admission.nextDeadline { timer?.arm(at: deadline) } else { timer?.disarm() }
    }

    /// Sends a ping to a WebSocket, or closes a WebSocket that did not answer the last ping.
    ///
    /// - Returns: whether the WebSocket is still open.
    private func ping(_ number: UInt64) -> Bool {
        guard let connected = connections[number] else { return false }
        guard connected.isAlive else {
            drop(connected, .flowIdle)
            return false
        }
        connected.isAlive = false
        connected.webSocket?.ping()
        connected.flush()
        return true
    }

    // MARK: The end

    /// Removes a closed connection, and notifies the engine.
    private func ended(_ stream: StreamConnection) {
        guard let connected = connections.removeValue(forKey: stream.id) else { return }
        counters.count(.flowClosed)
        admission.removed(&connected.standing)
        let flow = connected.flow
        var asked: Flow?
        if connected.isOutgoing {
            let wish = sources.wish(flow)
            if outgoing[wish] == stream.id { outgoing[wish] = nil }
            asked = flow
        }
        if let alias = connected.alias, outgoing[sources.wish(alias)] == stream.id {
            outgoing[sources.wish(alias)] = nil
            asked = alias
        }
        guard let shard else { return }
        // The engine repeats the requests on an established connection to a node, so they are not reported as failed.
        let failed = connected.isEstablished ? [] : asked.map { sources.askers(of: $0) } ?? []
        loop.post {
            shard.assumeIsolated { shard in
                shard.flowClosed(flow)
                for asked in failed { shard.sendFailed(on: asked) }
            }
        }
    }
}
