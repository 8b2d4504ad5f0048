import Addressing
import Collections
import HTTPSemantics
import Reactor
import Timekeeping

/// The server side of one HTTP/1.1 connection: reads requests, one at a time, and answers them in their order.
///
/// The listener retains it until it ends.
///
/// - `@unchecked Sendable` because it lives on its listener's loop and is used there alone.
final class HTTPConnection: @unchecked Sendable {
    let stream: StreamConnection
    /// See ``HTTPRequest/peerUser``.
    private let peerUser: UInt32?
    private let limits: HTTPListener.Limits
    private weak var listener: HTTPListener?
    private var reader: HTTPRequestReader
    private var phase = Phase.reading
    /// Fires when the current part of a request, or the pause before it, exceeds its time limit.
    private var timer: LoopTimer?
    /// The part for which the timer is set.
    private var timedPart: HTTPRequestReader.Part?
    /// Input that arrived while a request waits for its answer.
    private var pending: [UInt8] = []
    /// Its place among the connections that wait for a request; `nil` while it is busy.
    private var idlePlace: AgeList<UInt64>.Place?
    /// Asks for the next piece of a body, or reports that none is needed; set while enough output waits.
    private var takesMore: ((Bool) -> Void)?
    /// Whether ``serve(_:from:)`` is handing out requests. It then continues by itself after an answer.
    private var isServing = false

    private enum Phase {
        /// Next: `answering`, `lingering`, `ended`.
        case reading
        /// A request waits for its answer. Next: `reading`, `streaming`, `ended`.
        case answering(HTTPRequestHead)
        /// The body of an answer is being sent in pieces. Next: `reading`, `ended`.
        case streaming(takesChunks: Bool, staysOpen: Bool)
        /// The last answer is sent, and further input is dropped: closing with unread input would make the kernel
        /// discard the answer. Next: `ended`.
        case lingering
        /// Another protocol takes over as soon as the input after the request is kept. Next: `ended`.
        case upgrading
        case ended
    }

    /// How many bytes of pipelined requests are kept. Beyond it TCP slows the peer down.
    private static let pendingLimit = 32 << 10
    /// With more waiting output of a body in pieces, no further piece is requested.
    private static let pieceMark = 64 << 10

    init(_ stream: StreamConnection, of listener: HTTPListener, limits: HTTPListener.Limits) {
        self.stream = stream
        self.listener = listener
        self.limits = limits
        peerUser = stream.remote.port == 0 ? stream.peerUser : nil
        reader = HTTPRequestReader(headLimit: limits.head, bodyLimit: limits.body)
    }

    func start(on loop: EventLoop) throws(SystemError) {
        let timer = try LoopTimer(on: loop) { [weak self] in self?.timeIsOver() }
        self.timer = timer
        // A connection without a request has the same time limit as one with half a head.
        timer.arm(at: loop.now + limits.headTimeout)
        noteIdleness()
        try stream.start(
            StreamConnection.Handlers(
                connected: { [weak self] _ in self?.connected() },
                received: { [weak self] _, bytes in
                    self?.received(bytes)
                    return bytes.count
                }, closed: { [weak self] _, _ in self?.end() }, drained: { [weak self] _ in self?.askForMore(true) }))
    }

    /// The client may have chosen another protocol in its handshake.
    private func connected() {
        guard let take = listener?.taker(of: stream) else { return }
        end()
        take(stream)
    }

    /// Closes the connection without an answer.
    func close() {
        stream.close()
        end()
    }

    private func end() {
        phase = .ended
        timer = nil
        askForMore(false)
        noteIdleness()
        listener?.ended(self)
    }

    /// Reports to the listener whether the connection is idle: it has not sent a whole head, or only waits until a
    /// refusal is sent.
    private func noteIdleness() {
        let isIdle =
            switch phase {
            case .reading: reader.part != .body
            case .lingering: true
            case .answering, .streaming, .upgrading, .ended: false
            }
        if isIdle, idlePlace == nil { idlePlace = listener?.becameIdle(self) }
        if !isIdle, let place = idlePlace.take() { listener?.isBusy(place) }
    }

    // MARK: Input

    private func received(_ bytes: Span<UInt8>) {
        switch phase {
        case .lingering, .ended: return
        case .answering, .streaming, .upgrading: keep(bytes, from: 0)
        case .reading:
            guard !isServing else { return keep(bytes, from: 0) }
            var position = 0
            serve(bytes, from: &position)
            keep(bytes, from: position)
            servePending()
        }
    }

    private func keep(_ bytes: Span<UInt8>, from position: Int) {
        guard position < bytes.count else { return }
        pending.append(bytes.extracting(position..<bytes.count))
        if pending.count > Self.pendingLimit { stream.setReading(false) }
    }

    /// Hands out requests until one has to wait.
    private func serve(_ bytes: Span<UInt8>, from position: inout Int) {
        isServing = true
        defer { isServing = false }
        while case .reading = phase {
            switch reader.next(in: bytes, from: &position) {
            case .needsMore:
                noteIdleness()
                return armTimer()
            case .wantsContinue: stream.send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
            case .request(let head, let body):
                phase = .answering(head)
                noteIdleness()
                timer?.disarm()
                timedPart = nil
                listener?.received(
                    HTTPRequest(
                        method: head.method, target: head.target, fields: head.fields, body: body,
                        remote: stream.remote, connection: stream.id, peerUser: peerUser), on: self)
            case .fault(let fault): refuse(fault)
            }
        }
    }

    private func servePending() {
        while case .reading = phase, !pending.isEmpty {
            let bytes = pending
            pending = []
            var position = 0
            serve(bytes.span, from: &position)
            keep(bytes.span, from: position)
        }
    }

    // MARK: Output

    func answer(_ response: HTTPResponse, at date: UnixTime) {
        guard case .answering(let head) = phase else { return }
        listener?.answered(response.status)
        let staysOpen = head.staysOpen && !response.endsConnection
        stream.send(response.bytes(at: date, staysOpen: staysOpen, withoutBody: head.method == "HEAD"))
        answered(staysOpen: staysOpen)
    }

    private func answered(staysOpen: Bool) {
        guard staysOpen else {
            stream.close(flushing: true)
            return end()
        }
        phase = .reading
        noteIdleness()
        stream.setReading(true)
        guard !isServing else { return }
        servePending()
        armTimer()
    }

    /// Begins an answer with a body in pieces. The body of the response is the first one.
    ///
    /// - Returns: whether more pieces are wanted: a HEAD request gets no body.
    func begin(_ response: HTTPResponse, at date: UnixTime) -> Bool {
        guard case .answering(let head) = phase else { return false }
        let staysOpen = head.staysOpen && head.takesChunks && !response.endsConnection
        listener?.answered(response.status)
        stream.send(response.head(at: date, staysOpen: staysOpen, isChunked: head.takesChunks))
        guard head.method != "HEAD" else {
            answered(staysOpen: staysOpen)
            return false
        }
        phase = .streaming(takesChunks: head.takesChunks, staysOpen: staysOpen)
        stream.outputMark = Self.pieceMark
        write(response.body, inChunks: head.takesChunks)
        return true
    }

    /// Sends a piece. `asks` is called once, when another piece can be sent or none is wanted any more.
    func send(_ piece: [UInt8], _ asks: @escaping (Bool) -> Void) {
        guard case .streaming(let takesChunks, _) = phase, takesMore == nil else { return asks(false) }
        write(piece, inChunks: takesChunks)
        if stream.isHeldUp { takesMore = asks } else { asks(true) }
    }

    /// A chunk without bytes would be the last.
    private func write(_ piece: [UInt8], inChunks takesChunks: Bool) {
        if !piece.isEmpty { stream.send(takesChunks ? HTTPResponse.chunk(piece) : piece) }
    }

    private func askForMore(_ isWanted: Bool) { takesMore.take()?(isWanted) }

    /// The body has no more pieces.
    func endBody() {
        guard case .streaming(let takesChunks, let staysOpen) = phase else { return }
        if takesChunks { stream.send(HTTPResponse.lastChunk) }
        stream.outputMark = nil
        answered(staysOpen: staysOpen)
    }

    /// Answers with 101, and passes the connection on with the input after the request.
    func upgrade(
        _ fields: [HTTPField], at date: UnixTime, on loop: EventLoop,
        _ take: @escaping @Sendable (StreamConnection, [UInt8]) -> Void
    ) {
        guard case .answering = phase else { return }
        listener?.answered(101)
        stream.send(HTTPResponse(status: 101, fields: fields).bytes(at: date, staysOpen: true))
        phase = .upgrading
        loop.post { [self] in
            guard case .upgrading = phase else { return }
            let early = pending
            end()
            take(stream, early)
        }
    }

    private func refuse(_ fault: HTTPFault) {
        let response = HTTPResponse(status: fault.status, text: fault.reason)
        listener?.answered(fault.status)
        stream.send(response.bytes(at: listener?.date ?? UnixTime(milliseconds: 0), staysOpen: false))
        phase = .lingering
        noteIdleness()
        pending = []
        timer?.arm(at: SystemClock.now + limits.lingerTimeout)
    }

    // MARK: Time

    /// The time limits of head and body run from their first byte, however slowly the rest arrives.
    private func armTimer() {
        guard case .reading = phase else { return }
        let part = reader.part
        guard part != timedPart else { return }
        timedPart = part
        let limit =
            switch part {
            case .none: limits.idleTimeout
            case .head: limits.headTimeout
            case .body: limits.bodyTimeout
            }
        timer?.arm(at: SystemClock.now + limit)
    }

    private func timeIsOver() {
        switch phase {
        case .reading where reader.part != .none: refuse(HTTPFault(408, "the request did not arrive in time"))
        case .reading, .lingering: close()
        case .answering, .streaming, .upgrading, .ended: break
        }
    }
}
