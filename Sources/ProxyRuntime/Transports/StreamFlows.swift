package import Addressing
import Bytes
import Collections
import Crypto
package import Reactor
import SIPMessage
package import Telemetry
import Timekeeping
import WebSocket

/// The connections over TCP, TLS and WebSocket: cuts what they bring into messages, finds the connection that a flow means, and keeps to the rules
/// for those that have not proved who they are (T17).
///
/// - `@unchecked Sendable` because it lives on its shard's loop and is used there alone.
package final class StreamFlows: @unchecked Sendable {
    private let loop: EventLoop
    private let log: Log
    private weak var shard: ProxyShard?
    private var connections: [UInt64: Connected] = [:]
    /// The connections that the daemon has made, by what was asked for.
    private var outgoing: [Flow: UInt64] = [:]
    private let tls: TLSSetup
    private var admission: FlowAdmission
    /// Fires when the time of the next connection that has proved nothing is up.
    private var timer: LoopTimer?
    /// The WebSockets, in the order in which they are asked whether they are there.
    private var pings = Queue<(number: UInt64, due: Instant)>()
    private var pingTimer: LoopTimer?
    private let pingInterval: Duration
    private var counters = CounterSet()
    /// Only trusted peers get connections.
    package var refusesStrangers = false
    private var logLimit = LogRateLimit()

    /// How long a connection may be silent before it is closed: phones keep theirs that long without a word.
    private static let quiet: Duration = .seconds(3600)
    /// How long it may take to establish a connection that the daemon makes. Then it is given up, so that another way
    /// can be tried while the caller waits.
    private static let connecting: Duration = .seconds(4)
    /// How many bytes of output may wait for a peer. Above the mark nothing more is read from it until it has taken
    /// some (T17.5); beyond the limit its connection is ended. Who has proved himself may have more: he may have asked
    /// for much in the time that answers take, or be a trunk that all phones call over.
    private enum Output {
        static let mark = 256 << 10
        static let limit = 512 << 10
        static let provedMark = 1 << 20
        static let provedLimit = 8 << 20
    }
    /// How many messages of one connection are handled before the others have their turn.
    private static let messagesInTurn = 16
    /// How many connections are ended or pinged, because it is time, before the others have their turn.
    private static let timesInARow = 8

    private final class Connected {
        let stream: StreamConnection
        let flow: Flow
        let isOutgoing: Bool
        var framer = StreamFramer()
        /// What cuts the bytes in the framer's place; `nil` where no WebSocket is spoken.
        let webSocket: WebSocketSession?
        /// Whether something has come since the last ping.
        var isAlive = true
        var standing: FlowAdmission.Standing
        /// What else it is asked for by, though its peer has opened it (RFC 5923).
        var alias: Flow?

        init(
            stream: StreamConnection, flow: Flow, isOutgoing: Bool, standing: FlowAdmission.Standing,
            webSocket: WebSocketSession? = nil
        ) {
            self.stream = stream
            self.flow = flow
            self.isOutgoing = isOutgoing
            self.standing = standing
            self.webSocket = webSocket
        }

        func send(_ bytes: [UInt8]) {
            guard let webSocket else { return stream.send(bytes) }
            webSocket.send(bytes)
            flush()
        }

        /// Sends what the WebSocket has to say.
        func flush() {
            guard let bytes = webSocket?.takeOutput(), !bytes.isEmpty else { return }
            stream.send(bytes)
        }
    }

    package init(
        loop: EventLoop, limits: FlowLimits = FlowLimits(), tls: TLSSetup = TLSSetup(),
        pingInterval: Duration = WebSocketSettings().pingInterval, log: Log
    ) throws(SystemError) {
        self.pingInterval = pingInterval
        self.loop = loop
        self.log = log
        self.tls = tls
        admission = FlowAdmission(limits)
        timer = try LoopTimer(on: loop, turn: .connections) { [weak self] in self?.timeIsUp() }
        pingTimer = try LoopTimer(on: loop, turn: .connections) { [weak self] in self?.pingsAreDue() }
    }

    package func start(for shard: ProxyShard) { self.shard = shard }

    /// Takes changed limits. They hold for existing connections too, except for how long a peer may read nothing.
    package func limitsChanged(_ limits: FlowLimits) {
        admission.limits = limits
        armTimer()
    }

    /// The limits that a listener gives to the connections that it accepts.
    package static func streamLimits(_ limits: FlowLimits) -> StreamConnection.Limits {
        var streams = StreamConnection.Limits()
        streams.output = Output.limit
        streams.outputMark = Output.mark
        streams.outputTimeout = limits.output
        streams.answersAfterEnd = true
        streams.turn = .connections
        return streams
    }

    /// Sends on the flow's connection. In a flow whose connection has the number 0, any connection to its remote
    /// address is meant, and one is made if there is none.
    ///
    /// - Returns: false when the flow's connection is gone, or none could be made.
    func send(_ bytes: [UInt8], on flow: Flow) -> Bool {
        let number = flow.connection != 0 ? flow.connection : outgoing[flow.wish]
        if let number, let connected = connections[number] {
            connected.send(bytes)
            return true
        }
        guard flow.connection == 0, !flow.transport.isWebSocket else { return false }
        return connect(flow, sending: bytes)
    }

    // MARK: Coming and going

    /// Takes a connection that a listener accepted, or closes it.
    package func accepted(_ stream: StreamConnection, by listener: UInt16, transport: Transport = .tcp) {
        guard let connected = admitted(stream, by: listener, transport) else { return }
        do {
            try connected.stream.start(handlers)
        } catch {
            ended(stream)
        }
    }

    /// Takes a connection whose WebSocket handshake is done, or closes it; `early` is what came after the handshake.
    package func accepted(
        webSocket stream: StreamConnection, early: [UInt8], by listener: UInt16, transport: Transport
    ) {
        guard stream.isOpen, let connected = admitted(stream, by: listener, transport) else { return }
        stream.outputLimit = Output.limit
        stream.outputMark = Output.mark
        // So that it sees why we close.
        stream.waitsForPeersEnd = true
        if connected.standing.isUnproved == false { trust(stream) }
        stream.handOver(to: handlers, unread: early)
        opened(stream)
        pings.append((stream.id, loop.now + pingInterval))
        armPings()
    }

    private func admitted(
        _ stream: StreamConnection, by listener: UInt16, _ transport: Transport
    ) -> Connected? {
        let isTrusted = shard?.assumeIsolated { $0.isTrusted(stream.remote) } ?? false
        guard !refusesStrangers || isTrusted else {
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
        let flow = Flow(transport: transport, listener: listener, connection: stream.id, remote: stream.remote)
        let standing = admission.added(
            stream.id, from: stream.remote.address.source, isTrusted: isTrusted, now: loop.now)
        if isTrusted {
            trust(stream)
            // Calls come from there: it does not stand in one row with phones.
            stream.turn = .usual
        }
        stream.setIdleTimeout(Self.quiet)
        let webSocket = transport.isWebSocket ? WebSocketSession(messageLimit: Self.longestMessage) : nil
        let connected = Connected(
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
                log.error("no connection: TLS is not set up for it", [.target: .described(flow.remote)])
                return false
            }
            session = made
        }
        do {
            let stream = try StreamConnection.connect(
                to: flow.remote, on: loop, tls: session, limits: limits, handlers: handlers)
            let own = flow.on(connection: stream.id)
            stream.setIdleTimeout(Self.quiet)
            add(Connected(stream: stream, flow: own, isOutgoing: true, standing: admission.addedOutgoing()))
            outgoing[flow.wish] = stream.id
            stream.send(bytes)
            return true
        } catch {
            log.info("no connection", [.target: .described(flow.remote), .error: .described(error)])
            return false
        }
    }

    private func add(_ connected: Connected) {
        counters.count(.flowOpened)
        connections[connected.stream.id] = connected
    }

    /// To be called when somebody has proved on the flow who he is; `account` is whose password it was, `nil` where
    /// none is asked for.
    func proved(_ flow: Flow, by account: Int?) {
        guard let connected = connections[flow.connection], connected.standing.isUnproved,
            admission.proved(&connected.standing, by: account)
        else { return }
        trust(connected.stream)
    }

    /// From now on what is to be sent to that place goes by this connection (RFC 5923), unless there is one that we opened.
    func reuse(_ flow: Flow, as place: Endpoint, _ server: ServerNumber) {
        guard let connected = connections[flow.connection] else { return }
        let asked = Flow(
            transport: flow.transport, listener: flow.listener, connection: 0, remote: place, server: server)
        guard outgoing[asked.wish] == nil else { return }
        outgoing[asked.wish] = flow.connection
        connected.alias = asked
    }

    /// The peer was told to send something more often than this (Flow-Timer); RFC 5626 section 4.4.1 gives it ten seconds
    /// more.
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

    /// One value serves all connections.
    private lazy var handlers = StreamConnection.Handlers(
        connected: { [weak self] stream in self?.opened(stream) },
        received: { [weak self] stream, bytes in self?.received(bytes, on: stream) ?? bytes.count },
        closed: { [weak self] stream, reason in self?.closed(stream, reason) })

    /// TLS is established: what the peer's certificate says may make it a trusted one (RFC 5922 section 7).
    private func opened(_ stream: StreamConnection) {
        guard let session = stream.tls, let connected = connections[stream.id], let shard else { return }
        counters.count(session.isResumed ? .tlsResumed : .tlsFull)
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
        case .peerClosed, .system, .openTimeout, .inputOverflow, .finished: break
        }
        ended(stream)
    }

    private func refuse(_ stream: StreamConnection, _ reason: Counter) {
        note(reason, of: stream)
        stream.close()
    }

    private func drop(_ connected: Connected, _ reason: Counter) {
        note(reason, of: connected.stream)
        connected.webSocket?.close(.policyViolation)
        connected.flush()
        connected.stream.close(flushing: connected.webSocket != nil)
        ended(connected.stream)
    }

    /// A handshake came to nothing: the certificate of a server is not what it must be, or a client speaks no TLS.
    private func refused(_ stream: StreamConnection, _ text: String) {
        let isServer = connections[stream.id].map { !$0.isOutgoing } ?? true
        counters.count(isServer ? .tlsRefusedIncoming : .tlsRefusedOutgoing)
        guard let suppressed = logLimit.admit(now: loop.now) else { return }
        log.info(
            "TLS failed",
            [
                isServer ? .source : .target: .described(stream.remote), .reason: .text(text),
                .suppressed: .number(suppressed),
            ])
    }

    private func note(_ reason: Counter, of stream: StreamConnection) {
        counters.count(reason)
        guard let suppressed = logLimit.admit(now: loop.now) else { return }
        log.info(
            "connection refused or ended",
            [
                .source: .described(stream.remote), .reason: .text(Self.word(reason)),
                .suppressed: .number(suppressed),
            ])
    }

    /// The reason as the metrics have it: `gave-way`, where the label is `reason="gave-way"`.
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

    /// Asks those whose turn it is whether they are there.
    private func pingsAreDue() {
        let now = loop.now
        for _ in 0..<Self.timesInARow {
            guard let (number, due) = pings.first, due <= now else { break }
            _ = pings.popFirst()
            guard let connected = connections[number] else { continue }
            guard connected.isAlive else {
                drop(connected, .flowIdle)
                continue
            }
            connected.isAlive = false
            connected.webSocket?.ping()
            connected.flush()
            pings.append((number, now + pingInterval))
        }
        armPings()
    }

    private func armPings() {
        if let (_, due) = pings.first { pingTimer?.arm(at: due) } else { pingTimer?.disarm() }
    }

    // MARK: Input

    private func received(_ bytes: Span<UInt8>, on stream: StreamConnection) -> Int {
        guard let connected = connections[stream.id], let shard else { return bytes.count }
        if let session = connected.webSocket { return received(bytes, by: session, of: connected) }
        var used = 0
        var left = Self.messagesInTurn
        while used < bytes.count {
            // What is read and not answered waits in the connection, until its peer has taken the answers so far, or until
            // the others have had their turn.
            if stream.isHeldUp { return used }
            guard left > 0 else {
                stream.endTurn()
                return used
            }
            left -= 1
            let rest = bytes.extracting(used..<bytes.count)
            var head: MessageHead?
            switch connected.framer.next(in: rest, head: &head) {
            case .incomplete:
                // One line end, which may be half a keep-alive: whoever sends it is there.
                if rest[0] == UInt8(ascii: "\r") || rest[0] == UInt8(ascii: "\n") {
                    let flow = connected.flow
                    shard.onLoop { $0.flowAlive(flow) }
                }
                return used
            case .keepAlive(let length):
                // RFC 5626 section 4.4.1: a double CRLF is answered by one.
                used += length
                if length == 4 { stream.send(Array("\r\n".utf8)) }
                let flow = connected.flow
                shard.onLoop { $0.flowAlive(flow) }
            case .message(let length):
                let message = rest.extracting(0..<length)
                used += length
                let flow = connected.flow
                let kind = shard.onLoop { [head] in $0.streamMessageReceived(message, head: head, on: flow) }
                switch kind {
                case .request: admission.asked(&connected.standing)
                case .other: break
                case .fatal: return giveUp(connected, used: bytes.count)
                }
            case .broken:
                // Where the next message begins is not known any more. Answer what can be answered, and close (T2).
                let flow = connected.flow
                shard.onLoop { _ = $0.streamMessageReceived(rest, on: flow) }
                return giveUp(connected, used: bytes.count)
            }
        }
        return used
    }

    /// Each message of a WebSocket is one of SIP (RFC 7118 section 5.2.4), or a keep-alive.
    private func received(_ bytes: Span<UInt8>, by session: WebSocketSession, of connected: Connected) -> Int {
        connected.isAlive = true
        var used = 0
        var left = Self.messagesInTurn
        while used < bytes.count {
            if connected.stream.isHeldUp { return used }
            guard left > 0 else {
                connected.stream.endTurn()
                return used
            }
            let taken = session.receive(bytes.extracting(used..<bytes.count))
            used += taken
            for message in session.takeMessages() {
                left -= 1
                received(message.span, of: connected)
            }
            connected.flush()
            if session.isOver || taken == 0 { return giveUp(connected, used: bytes.count) }
        }
        return used
    }

    private func received(_ message: Span<UInt8>, of connected: Connected) {
        guard let shard, connections[connected.stream.id] != nil else { return }
        let flow = connected.flow
        var isKeepAlive = true
        for index in message.indices where message[index] != UInt8(ascii: "\r") && message[index] != UInt8(ascii: "\n")
        {
            isKeepAlive = false
            break
        }
        guard !isKeepAlive else {
            if message.count >= 4 { connected.send(Array("\r\n".utf8)) }
            return shard.onLoop { $0.flowAlive(flow) }
        }
        let kind = shard.onLoop { $0.streamMessageReceived(message, isCut: true, on: flow) }
        if case .request = kind { admission.asked(&connected.standing) }
    }

    private func giveUp(_ connected: Connected, used: Int) -> Int {
        connected.stream.finish()
        return used
    }

    /// Forgets a connection that is gone, and tells the engine.
    private func ended(_ stream: StreamConnection) {
        guard let connected = connections.removeValue(forKey: stream.id) else { return }
        counters.count(.flowClosed)
        admission.removed(&connected.standing)
        let flow = connected.flow
        var asked: Flow?
        if connected.isOutgoing {
            if outgoing[flow.wish] == stream.id { outgoing[flow.wish] = nil }
            asked = flow.on(connection: 0)
        }
        if let alias = connected.alias, outgoing[alias.wish] == stream.id {
            outgoing[alias.wish] = nil
            asked = alias
        }
        guard let shard else { return }
        loop.post { [asked] in
            shard.assumeIsolated { shard in
                shard.flowClosed(flow)
                if let asked { shard.sendFailed(on: asked) }
            }
        }
    }
}

extension Flow {
    /// What a connection is asked for by: any to that place, whichever listener's address its messages bear.
    fileprivate var wish: Flow {
        Flow(transport: transport, listener: 0, connection: 0, remote: remote, holder: holder, server: server)
    }
}
