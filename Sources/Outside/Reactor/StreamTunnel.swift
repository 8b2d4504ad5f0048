import Timekeeping

/// The request for a tunnel to a server. A connection sends the request to a relay, such as an HTTP proxy. After the
/// relay's answer, the relay passes all bytes on, and TLS with the server begins.
package struct StreamTunnel: Sendable {
    package enum Judgement: Hashable, Sendable {
        /// The relay's answer is not complete yet.
        case incomplete
        /// The relay has opened the tunnel; its answer has `length` bytes, and the server's bytes follow.
        case open(length: Int)
        case refused(status: Int)
        /// The bytes are no answer in the relay's protocol.
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
    /// Decides whether the relay's answer is complete and opens the tunnel; the argument has all bytes of the answer so
    /// far.
    package let judge: @Sendable ([UInt8]) -> Judgement

    package init(request: [UInt8], longestAnswer: Int, judge: @escaping @Sendable ([UInt8]) -> Judgement) {
        self.request = request
        self.longestAnswer = longestAnswer
        self.judge = judge
    }
}

/// Asks a relay for a tunnel on a connected socket. Bytes after the relay's answer stay in the socket for the server's
/// stream.
///
/// The release of the ``TunnelOpening`` ends the exchange without a callback.
final class TunnelOpening {
    private let tunnel: StreamTunnel
    private var done: ((StreamTunnel.Failure?) -> Void)?
    private var watch: FileWatch?
    private var descriptor: Int32 = -1
    private var loop: EventLoop?
    private var sent = 0
    private var answer: [UInt8] = []

    init(_ tunnel: StreamTunnel) { self.tunnel = tunnel }

    /// Whether the relay was reached, so that the request for the tunnel is being sent or was sent.
    var isAsking: Bool { watch != nil }

    /// Begins the exchange with the relay; the connected socket must stay open until `done` is called. The loop calls
    /// `done` once: with `nil` if the tunnel is open, and otherwise with the reason. The connection's time limit also
    /// applies to the exchange with the relay.
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
        // One more byte than the limit is read, so that a relay's answer that is too long is noticed.
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
