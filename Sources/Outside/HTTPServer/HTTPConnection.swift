import Addressing
import Bytes
import Collections
import HTTPSemantics
import Reactor
import Timekeeping

/// The server side of one HTTP/1.1 connection. The connection reads one request at a time, and answers requests in
/// their order.
///
/// The listener retains the connection until its end.
///
/// - The type is `@unchecked Sendable`, because only its listener's loop uses it.
final class HTTPConnection: @unchecked Sendable {
    let stream: StreamConnection
    /// The user at the other end of a Unix-domain socket: see ``HTTPRequest/peerUser``.
    private let peerUser: UInt32?
    private let limits: HTTPListener.Limits
    private weak var listener: HTTPListener?
    private var reader: HTTPRequestReader
    private var phase = Phase.reading
    /// The timer of the current time limit: for a part of a request, or for the pause between two requests.
    private var timer: LoopTimer?
    /// The part of the request for which the timer is armed.
    private var timedPart: HTTPRequestReader.Part?
    /// Input that arrived while a request waits for its answer, perhaps with further requests.
    private var pending: [UInt8] = []
    /// The connection's entry in the listener's list of idle connections; `nil` while the connection is busy.
    private var idlePlace: AgeList<UInt64>.Place?
    /// Tells the body's sender later whether another piece is needed; set while too much output waits.
    private var takesMore: ((Bool) -> Void)?
    /// Whether ``serve(_:from:)`` is running: a running ``serve(_:from:)`` starts the next request itself.
    private var isServing = false

    private enum Phase {
        /// A request is being read; `answering`, `lingering` or `ended` follows.
        case reading
        /// A request waits for its answer; `reading`, `streaming` or `ended` follows.
        case answering(HTTPRequestHead)
        /// The answer's body is being sent in pieces; `reading` or `ended` follows.
        case streaming(takesChunks: Bool, staysOpen: Bool)
        /// The last answer was sent, and all further input is dropped; `ended` follows. If the socket were closed with
        /// unread input, the kernel would discard the answer.
        case lingering
        /// The connection is being passed to another protocol's code, with the input after the request; `ended`
        /// follows.
        case upgrading
        case ended
    }

    /// While a request waits for its answer, at most this many bytes of later requests are kept. At the limit of kept
    /// bytes, the connection stops reading, so that TCP slows the peer down.
    private static let pendingLimit = 32 << 10
    /// If more bytes of output wait, the connection asks for no more pieces of a body.
    private static let pieceMark = 64 << 10

    init(_ stream: StreamConnection, of listener: HTTPListener, limits: HTTPListener.Limits) {
        self.stream = stream
        self.listener = listener
        self.limits = limits
        peerUser = stream.remote.port == 0 ? stream.peerUser : nil
        reader = HTTPRequestReader(headLimit: limits.head, bodyLimit: limits.body)
    }

    func start(on loop: EventLoop) throws(SystemError) {
        try begin(on: loop)
        try stream.start(handlers)
    }

    /// Begins to serve an open connection, which other code has accepted.
    func takeOver(on loop: EventLoop) throws(SystemError) {
        try begin(on: loop)
        stream.handOver(to: handlers, unread: [])
    }

    private func begin(on loop: EventLoop) throws(SystemError) {
        let timer = try LoopTimer(on: loop) { [weak self] in self?.timeIsOver() }
        self.timer = timer
        // The time limit for the first request's head begins when the connection opens.
        timer.arm(at: loop.now + limits.headTimeout)
        noteIdleness()
    }

    private var handlers: StreamConnection.Handlers {
        StreamConnection.Handlers(
            connected: { [weak self] _ in self?.connected() },
            received: { [weak self] _, bytes in
                self?.received(bytes)
                return bytes.count
            }, closed: { [weak self] _, _ in self?.end() }, drained: { [weak self] _ in self?.askForMore(true) })
    }

    /// Continues after the TLS handshake; another protocol's connection (ALPN) is passed to that protocol's code.
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

    /// Reports to the listener whether the connection is idle. A connection is idle until it has received a whole head,
    /// and while a refusal is being sent.
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

    /// Passes complete requests to the listener, until a request must wait for its answer.
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

    /// Begins an answer whose body is sent in pieces; the body of `response` is the first piece.
    ///
    /// - Returns: whether more pieces are needed; false for a HEAD request.
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

    /// Sends a piece of a body. The closure `asks` is called once: with true when another piece has room, with false
    /// when none is needed.
    func send(_ piece: [UInt8], _ asks: @escaping (Bool) -> Void) {
        guard case .streaming(let takesChunks, _) = phase, takesMore == nil else { return asks(false) }
        write(piece, inChunks: takesChunks)
        if stream.isHeldUp { takesMore = asks } else { asks(true) }
    }

    /// Writes a piece of a body, unless it is empty, because an empty chunk would end the body.
    private func write(_ piece: [UInt8], inChunks takesChunks: Bool) {
        if !piece.isEmpty { stream.send(takesChunks ? HTTPResponse.chunk(piece) : piece) }
    }

    private func askForMore(_ isWanted: Bool) { takesMore.take()?(isWanted) }

    /// Ends a body that is sent in pieces.
    func endBody() {
        guard case .streaming(let takesChunks, let staysOpen) = phase else { return }
        if takesChunks { stream.send(HTTPResponse.lastChunk) }
        stream.outputMark = nil
        answered(staysOpen: staysOpen)
    }

    /// Answers with 101, and passes the connection and the input after the request to another protocol's code.
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

    /// Arms the timer when the next part of a request begins. The time limit of a head or body begins at its first
    /// byte, and is not extended by later bytes.
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
