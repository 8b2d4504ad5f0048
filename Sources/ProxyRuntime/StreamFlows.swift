import Addressing
package import Reactor
import SIPGrammar
import SIPMessage
package import Telemetry
import Timekeeping

/// The TCP connections: cuts what they bring into messages, and finds the connection that a flow means.
///
/// - `@unchecked Sendable` because it lives on its shard's loop and is used there alone.
package final class StreamFlows: @unchecked Sendable {
    private let loop: EventLoop
    private let log: Log
    private weak var shard: ProxyShard?
    private var connections: [UInt64: Connected] = [:]
    /// Connections made by us, by where they lead.
    private var outgoing: [Endpoint: UInt64] = [:]
    private var counters = CounterSet()

    /// A new connection must bring its first message soon; later it may be quiet for as long as phones keep it (T17).
    private static let firstMessage: Duration = .seconds(10)
    private static let quiet: Duration = .seconds(3600)
    /// A connection of ours stands by then or is given up, so that another way can be tried while the caller waits.
    private static let connecting: Duration = .seconds(4)

    private final class Connected {
        let stream: StreamConnection
        let flow: Flow
        let isOutgoing: Bool
        var framer = StreamFramer()
        var hasSpoken = false

        init(stream: StreamConnection, flow: Flow, isOutgoing: Bool) {
            self.stream = stream
            self.flow = flow
            self.isOutgoing = isOutgoing
        }
    }

    package init(loop: EventLoop, log: Log) {
        self.loop = loop
        self.log = log
    }

    func start(for shard: ProxyShard) { self.shard = shard }

    /// Sends on the flow's connection; for number 0 on any that leads there, made if there is none.
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

    /// Takes a connection that a listener accepted.
    package func accepted(_ stream: StreamConnection, by listener: UInt16) {
        let flow = Flow(transport: .tcp, listener: listener, connection: stream.id, remote: stream.remote)
        stream.setIdleTimeout(Self.firstMessage)
        add(Connected(stream: stream, flow: flow, isOutgoing: false))
        do {
            try stream.start(handlers)
        } catch {
            ended(stream)
        }
    }

    private func connect(_ flow: Flow, sending bytes: [UInt8]) -> Bool {
        do {
            var limits = StreamConnection.Limits()
            limits.openTimeout = Self.connecting
            let stream = try StreamConnection.connect(to: flow.remote, on: loop, limits: limits, handlers: handlers)
            let own = Flow(
                transport: flow.transport, listener: flow.listener, connection: stream.id, remote: flow.remote)
            add(Connected(stream: stream, flow: own, isOutgoing: true))
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

    var figures: CounterSet {
        var figures = counters
        figures.set(.connections, to: connections.count)
        return figures
    }

    private var handlers: StreamConnection.Handlers {
        StreamConnection.Handlers(
            connected: { _ in },
            received: { [weak self] stream, bytes in self?.received(bytes, on: stream) ?? bytes.count },
            closed: { [weak self] stream, _ in self?.ended(stream) })
    }

    // MARK: Input

    private func received(_ bytes: Span<UInt8>, on stream: StreamConnection) -> Int {
        guard let connected = connections[stream.id], let shard else { return bytes.count }
        var used = 0
        while used < bytes.count {
            let rest = bytes.extracting(used..<bytes.count)
            switch connected.framer.next(in: rest) {
            case .incomplete:
                return used
            case .keepAlive(let length):
                // RFC 5626 section 4.4.1: a double CRLF is answered by one.
                used += length
                if length == 4 { stream.send(Array("\r\n".utf8)) }
                noteAlive(connected)
                let flow = connected.flow
                shard.assumeIsolated { $0.flowAlive(flow) }
            case .message(let length):
                let message = rest.extracting(0..<length)
                used += length
                noteAlive(connected)
                let flow = connected.flow
                let isFatal = shard.assumeIsolated { $0.streamMessageReceived(message, on: flow) }
                if isFatal { return giveUp(connected, used: bytes.count) }
            case .broken:
                // Where the next message begins is not known any more. Answer what can be answered, and close (T2).
                let flow = connected.flow
                shard.assumeIsolated { _ = $0.streamMessageReceived(rest, on: flow) }
                return giveUp(connected, used: bytes.count)
            }
        }
        shard.assumeIsolated { $0.runActions() }
        return used
    }

    private func noteAlive(_ connected: Connected) {
        guard !connected.hasSpoken else { return }
        connected.hasSpoken = true
        connected.stream.setIdleTimeout(Self.quiet)
    }

    private func giveUp(_ connected: Connected, used: Int) -> Int {
        shard?.assumeIsolated { $0.runActions() }
        connected.stream.close(flushing: true)
        ended(connected.stream)
        return used
    }

    /// The connection is gone: whoever waits for it is told.
    private func ended(_ stream: StreamConnection) {
        guard let connected = connections.removeValue(forKey: stream.id) else { return }
        counters.count(.flowClosed)
        let flow = connected.flow
        var asked: Flow?
        if connected.isOutgoing {
            if outgoing[flow.remote] == stream.id { outgoing[flow.remote] = nil }
            asked = Flow(transport: flow.transport, listener: flow.listener, connection: 0, remote: flow.remote)
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
