import Timekeeping

/// The request that a connection sends to a relay, such as an HTTP proxy. After its answer, the relay passes all bytes
/// on to a server. TLS with the server begins when the relay has agreed to pass bytes on.
package struct StreamTunnel: Sendable {
    package enum Judgement: Hashable, Sendable {
        /// The relay's answer is not complete yet.
        case incomplete
        /// The relay has opened the tunnel. The relay's answer has `length` bytes, and the bytes after the answer come
        /// from the server.
        case open(length: Int)
        case refused(status: Int)
        /// The bytes are not an answer in the relay's protocol.
        case garbled
    }

    /// The reason why the relay did not open a tunnel to the server.
    package enum Failure: Hashable, Sendable {
        /// The TCP connection to the relay could not be opened.
        case unreachable(SystemError)
        /// The relay did not answer in time.
        case silent
        /// The relay closed the connection before its answer was complete.
        case closed
        case refused(status: Int)
        case garbled
        case tooLong
    }

    package let request: [UInt8]
    /// The maximum length in bytes of the relay's answer.
    package let longestAnswer: Int
    /// Decides whether the relay's answer is complete and has opened the tunnel. The argument of `judge` has all bytes
    /// of the relay's answer that have arrived so far.
    package let judge: @Sendable ([UInt8]) -> Judgement

    package init(request: [UInt8], longestAnswer: Int, judge: @escaping @Sendable ([UInt8]) -> Judgement) {
        self.request = request
        self.longestAnswer = longestAnswer
        self.judge = judge
    }
}

/// Asks a relay for a tunnel, on a socket that belongs to a connection. Bytes after the relay's answer stay in the
/// socket, because they belong to the server.
///
/// When the ``TunnelOpening`` is released, the exchange ends without a callback.
final class TunnelOpening {
    private let tunnel: StreamTunnel
    private var done: ((StreamTunnel.Failure?) -> Void)?
    private var watch: FileWatch?
    private var descriptor: Int32 = -1
    private var loop: EventLoop?
    private var sent = 0
    private var answer: [UInt8] = []

    init(_ tunnel: StreamTunnel) { self.tunnel = tunnel }

    /// Whether the relay was reached, so that the tunnel's request (CONNECT) is in transmission or was sent.
    var isAsking: Bool { watch != nil }

    /// Begins the exchange on a connected socket. The socket must stay open while the ``TunnelOpening`` exists. The
    /// event loop calls `done` once: with `nil` if the tunnel is open, or with the failure. The connection's time limit
    /// also applies to the exchange with the relay.
    func begin(
        _ descriptor: Int32, on loop: EventLoop, turn: LoopTurn, until deadline: LoopTimer?,
        done: @escaping (StreamTunnel.Failure?) -> Void
    ) throws(SystemError) {
        self.descriptor = descriptor
        self.loop = loop
        self.done = done
        let watch = try FileWatch(descriptor: descriptor, on: loop, turn: turn, until: deadline) {
            [weak self] ready in
            self?.fired(ready)
        }
        try watch.watch(for: .write)
        self.watch = watch
    }

    private func fired(_ ready: FileWatch.Interest) {
        do throws(SystemError) {
            if ready.contains(.write) { try sendRest() } else { try readAnswer() }
        } catch {
            end(.closed)
        }
    }

    private func sendRest() throws(SystemError) {
        let request = tunnel.request
        guard let taken = try System.send(descriptor, request.span.extracting(sent..<request.count)) else { return }
        sent += taken
        if sent == request.count { try watch?.watch(for: .read) }
    }

    private func readAnswer() throws(SystemError) {
        guard let loop else { return }
        let had = answer.count
        // One byte more than the limit is read, to notice that the relay's answer is too long.
        let room = unsafe loop.streams.room(upTo: tunnel.longestAnswer + 1 - had)
        guard let count = unsafe try System.peek(descriptor, into: room) else { return }
        guard count > 0 else { return end(.closed) }
        unsafe answer.append(contentsOf: room[..<count])
        switch tunnel.judge(answer) {
        case .incomplete:
            if answer.count > tunnel.longestAnswer { return end(.tooLong) }
            try take(count, on: loop)
        case .open(let length):
            guard length > had, length <= answer.count else { return end(.garbled) }
            try take(length - had, on: loop)
            end(nil)
        case .refused(let status): end(.refused(status: status))
        case .garbled: end(.garbled)
        }
    }

    /// Removes bytes from the socket that were already read by peeking.
    private func take(_ count: Int, on loop: EventLoop) throws(SystemError) {
        let room = unsafe loop.streams.room(upTo: count)
        guard unsafe try System.receive(descriptor, into: room) == count else {
            throw SystemError(call: "recv", code: SystemError.protocolError)
        }
    }

    private func end(_ failure: StreamTunnel.Failure?) {
        watch = nil
        let done = done.take()
        done?(failure)
    }
}
