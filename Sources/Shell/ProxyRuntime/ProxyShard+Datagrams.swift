import Addressing
import ProxyCore
package import Reactor
import SIPMessage
import Telemetry
import Timekeeping

/// Opens the shard for datagrams, and receives them.
extension ProxyShard {
    /// Starts to receive datagrams on the sockets, by listener number; if a socket or timer fails, the loop stops.
    package func start(sockets: [UInt16: UDPSocket]) {
        for (number, socket) in sockets {
            while self.sockets.count <= Int(number) { self.sockets.append(nil) }
            self.sockets[Int(number)] = socket
        }
        do {
            timer = try LoopTimer(on: loop) { [weak self] in
                self?.onLoop(with: ()) { shard, _ in shard.deadlineReached() }
            }
            try load.start(on: loop) { [weak self] wait, now in
                self?.assumeIsolated { $0.engine.looked(after: wait, now: now) }
            }
            for (number, socket) in sockets {
                try socket.receive { [weak self] batch in
                    self?.onLoop(with: (batch, number)) { $0.datagramsReceived($1.0, by: $1.1) }
                }
            }
        } catch {
            log.error(
                "the daemon cannot start, because a socket or timer cannot be opened", [.error: .described(error)])
            loop.stop()
        }
        runActions()
    }

    /// Handles up to 16 datagrams together, and sends their answers together, for speed.
    private func datagramsReceived(_ batch: DatagramBatch, by listener: UInt16) {
        let now = loop.moment
        if standstill != nil { turned(now: now.instant) }
        if batch.isFull, let socket = socket(of: listener) {
            load.batchWasFull(on: socket, number: listener, now: now.instant, engine)
        }
        for index in 0..<batch.count {
            let flow = Flow(transport: .udp, listener: listener, connection: 0, remote: batch.source(at: index))
            guard flow.remote.port != 0 else { continue }
            if let taps { batch.withBytes(at: index) { taps.message($0, isIncoming: true, on: flow) } }
            if engine.isUnderPressure, wasRefused(batch, at: index, on: flow, now: now) { continue }
            let message = batch.withBytes(at: index) { bytes in
                Self.isKeepAlive(bytes) ? nil : reader.read(bytes, isStream: false)
            }
            if let message {
                received(message, on: flow, now: now)
            } else {
                answerSTUN(in: batch, at: index, on: flow)
                engine.flowAlive(flow, now: now)
            }
        }
        runActions()
    }

    /// Refuses a REGISTER during overload before parsing, because an early refusal costs much less than serving the
    /// REGISTER.
    ///
    /// - Returns: whether the datagram was refused.
    private func wasRefused(_ batch: DatagramBatch, at index: Int, on flow: Flow, now: Moment) -> Bool {
        let answer = batch.withBytes(at: index) { bytes in
            reader.glance(at: bytes).flatMap {
                engine.refusal(of: $0, in: bytes, from: flow.remote, now: now.instant)
            }
        }
        guard let answer else { return false }
        taps?.message(answer.span, isIncoming: false, on: flow)
        socket(of: flow.listener)?.queue(answer, to: flow.remote)
        return true
    }

    /// Answers a STUN binding request, which phones send as a keep-alive (RFC 5626 section 4.4.2).
    private func answerSTUN(in batch: DatagramBatch, at index: Int, on flow: Flow) {
        guard let answer = batch.withBytes(at: index, { STUNBinding.answer(to: $0, from: flow.remote) }) else { return }
        socket(of: flow.listener)?.queue(answer, to: flow.remote)
    }

    /// Whether the datagram is a keep-alive: STUN or CRLF. A CRLF over UDP is a keep-alive that needs no answer.
    private static func isKeepAlive(_ bytes: Span<UInt8>) -> Bool {
        guard bytes.count > 0 else { return true }
        if bytes[0] < 32, bytes[0] != UInt8(ascii: "\r"), bytes[0] != UInt8(ascii: "\n") { return true }
        for index in 0..<bytes.count where bytes[index] != UInt8(ascii: "\r") && bytes[index] != UInt8(ascii: "\n") {
            return bytes[index] == 0 && bytes.count <= 4
        }
        return true
    }
}
