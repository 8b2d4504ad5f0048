import Addressing
import Bytes
import Collections
package import Reactor
import SIPMessage
package import Telemetry
import Timekeeping

/// The TCP connections: cuts what they bring into messages, finds the connection that a flow means, and keeps to the rules
/// for those that have not proved who they are (T17).
///
/// - `@unchecked Sendable` because it lives on its shard's loop and is used there alone.
package final class StreamFlows: @unchecked Sendable {
    private let loop: EventLoop
    private let log: Log
    private weak var shard: ProxyShard?
    private var connections: [UInt64: Connected] = [:]
    /// The connections that the daemon has made, by the address that they lead to.
    private var outgoing: [Endpoint: UInt64] = [:]
    private var admission: FlowAdmission
    /// Fires when the time of the next connection that has proved nothing is up.
    private var timer: LoopTimer?
    private var counters = CounterSet()
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

    private final class Connected {
        let stream: StreamConnection
        let flow: Flow
        let isOutgoing: Bool
        var framer = StreamFramer()
        var standing: FlowAdmission.Standing

        init(stream: StreamConnection, flow: Flow, isOutgoing: Bool, standing: FlowAdmission.Standing) {
            self.stream = stream
            self.flow = flow
            self.isOutgoing = isOutgoing
            self.standing = standing
        }
    }

    package init(loop: EventLoop, limits: FlowLimits = FlowLimits(), log: Log) throws(SystemError) {
        self.loop = loop
        self.log = log
        admission = FlowAdmission(limits)
        timer = try LoopTimer(on: loop) { [weak self] in self?.timeIsUp() }
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
        return streams
    }

    /// Sends on the flow's connection. In a flow whose connection has the number 0, any connection to its remote
    /// address is meant, and one is made if there is none.
    ///
    /// - Returns: false when the flow's connection is gone, or none could be made.
    func send(_ bytes: [UInt8], on flow: Flow) -> Bool {
        let number = flow.connection != 0 ? flow.connection : outgoing[flow.remote]
        if let number, let connected = connections[number] {
            connected.stream.send(bytes)
            return true
        }
        guard flow.connection == 0 else { return false }
        return connect(flow, sending: bytes)
    }

    // MARK: Coming and going

    /// Takes a connection that a listener accepted, or closes it.
    package func accepted(_ stream: StreamConnection, by listener: UInt16) {
        let isTrusted = shard?.assumeIsolated { $0.isTrusted(stream.remote) } ?? false
        switch admission.verdict(on: stream.remote.address.source, isTrusted: isTrusted) {
        case .refusedForSource: return refuse(stream, .flowRefusedSource)
        case .refusedForTable: return refuse(stream, .flowRefusedFull)
        case .admittedFor(let oldest):
            if let oldest = connections[oldest] { drop(oldest, .flowGaveWay) }
        case .admitted: break
        }
        let flow = Flow(transport: .tcp, listener: listener, connection: stream.id, remote: stream.remote)
        let standing = admission.added(
            stream.id, from: stream.remote.address.source, isTrusted: isTrusted, now: loop.now)
        if isTrusted { trust(stream) }
        stream.setIdleTimeout(Self.quiet)
        add(Connected(stream: stream, flow: flow, isOutgoing: false, standing: standing))
        armTimer()
        do {
            try stream.start(handlers)
        } catch {
            ended(stream)
        }
    }

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
        do {
            let stream = try StreamConnection.connect(to: flow.remote, on: loop, limits: limits, handlers: handlers)
            let own = flow.on(connection: stream.id)
            stream.setIdleTimeout(Self.quiet)
            add(Connected(stream: stream, flow: own, isOutgoing: true, standing: admission.addedOutgoing()))
            outgoing[flow.remote] = stream.id
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
        connected: { _ in },
        received: { [weak self] stream, bytes in self?.received(bytes, on: stream) ?? bytes.count },
        closed: { [weak self] stream, reason in self?.closed(stream, reason) })

    private func closed(_ stream: StreamConnection, _ reason: StreamCloseReason) {
        switch reason {
        case .idle: counters.count(.flowIdle)
        case .outputStalled, .outputOverflow: note(.flowNotReading, of: stream)
        case .peerClosed, .system, .tls, .openTimeout, .inputOverflow, .finished: break
        }
        ended(stream)
    }

    private func refuse(_ stream: StreamConnection, _ reason: Counter) {
        note(reason, of: stream)
        stream.close()
    }

    private func drop(_ connected: Connected, _ reason: Counter) {
        note(reason, of: connected.stream)
        connected.stream.close()
        ended(connected.stream)
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
        while let (number, cause) = admission.expired(now: now) {
            guard let connected = connections[number] else { continue }
            drop(connected, cause == .noRequest ? .flowNoRequest : .flowNotProved)
        }
        armTimer()
    }

    private func armTimer() {
        if let deadline = admission.nextDeadline { timer?.arm(at: deadline) } else { timer?.disarm() }
    }

    // MARK: Input

    private func received(_ bytes: Span<UInt8>, on stream: StreamConnection) -> Int {
        guard let connected = connections[stream.id], let shard else { return bytes.count }
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
                    shard.assumeIsolated { $0.flowAlive(flow) }
                }
                return used
            case .keepAlive(let length):
                // RFC 5626 section 4.4.1: a double CRLF is answered by one.
                used += length
                if length == 4 { stream.send(Array("\r\n".utf8)) }
                let flow = connected.flow
                shard.assumeIsolated { $0.flowAlive(flow) }
            case .message(let length):
                let message = rest.extracting(0..<length)
                used += length
                let flow = connected.flow
                let kind = shard.assumeIsolated { [head] in $0.streamMessageReceived(message, head: head, on: flow) }
                switch kind {
                case .request: admission.asked(&connected.standing)
                case .other: break
                case .fatal: return giveUp(connected, used: bytes.count)
                }
            case .broken:
                // Where the next message begins is not known any more. Answer what can be answered, and close (T2).
                let flow = connected.flow
                shard.assumeIsolated { _ = $0.streamMessageReceived(rest, on: flow) }
                return giveUp(connected, used: bytes.count)
            }
        }
        return used
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
            if outgoing[flow.remote] == stream.id { outgoing[flow.remote] = nil }
            asked = flow.on(connection: 0)
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
