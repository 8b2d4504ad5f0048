import Addressing
import Crypto
import Glibc
import HTTP2
import HTTPClient
import Reactor
import Timekeeping

/// One HTTP/2 connection to a server, from the start of connecting until it is closed.
///
/// - The type is `@unchecked Sendable`, because only the loop's thread uses it.
final class HTTP2Connection: @unchecked Sendable {
    private enum State {
        /// TCP and TLS are being established; `open` or `closed` follows.
        case opening
        case open
        case closed
    }

    let loop: EventLoop
    let limits: HTTPSession.Limits
    private(set) weak var origin: HTTP2Origin?
    private var state = State.opening
    private(set) var stream: StreamConnection?
    private(set) var client: HTTP2Client
    private var head: RequestHead
    /// The active requests, at the indices of their streams.
    private var exchanges: [HTTPExchange?] = []
    private var finished: [HTTP2Client.Finished] = []
    /// Whether the connection gets no more requests, because it was idle for too long or the server refused requests.
    private(set) var isRetired = false
    private(set) var opened = Instant.distantFuture

    // The timer of the next health check (PING). HTTP2Connection+Health.swift uses `checkTimer` and the properties
    // after it.
    var checkTimer: LoopTimer?
    /// When the last bytes arrived from the server.
    var lastHeard = Instant.distantPast
    /// The time since which the connection has always had an active request.
    var busySince = Instant.distantPast
    /// The time since which the connection has had no active request.
    var idleSince = Instant.distantPast
    /// When the unanswered PING was sent, if any.
    var asked: Instant?
    /// The time since which the daemon has considered the server unresponsive, because of an unanswered PING; `nil` for
    /// a responsive server.
    var sickSince: Instant?
    /// The number of PINGs since the last answer to a request.
    var quietPings = 0

    /// The maximum number of bytes that may wait to be sent, far above the usual number.
    private static let outputLimit = 64 << 20

    /// Creates a connection, which starts to connect to the address.
    init(
        for origin: HTTP2Origin, to endpoint: Endpoint, tls: TLSSession, timeout: Duration
    ) throws(SystemError) {
        self.origin = origin
        loop = origin.loop
        limits = origin.limits
        var clientLimits = HTTP2Client.Limits()
        clientLimits.streams = limits.streams
        clientLimits.head = HTTPClientResponse.headLimit
        guard let client = HTTP2Client(limits: clientLimits) else {
            throw SystemError(call: "nghttp2_session_client_new", code: ENOMEM)
        }
        self.client = client
        head = RequestHead(to: origin.key.target)
        checkTimer = try LoopTimer(on: loop) { [weak self] in self?.check() }
        var streamLimits = StreamConnection.Limits()
        streamLimits.output = Self.outputLimit
        streamLimits.openTimeout = timeout
        // With the loop's first priority, output is sent before the loop accepts more requests.
        streamLimits.turn = .first
        stream = try StreamConnection.connect(
            to: endpoint, from: limits.source, on: loop, through: origin.key.proxy?.tunnel(to: origin.key.target),
            tls: tls, limits: streamLimits,
            handlers: StreamConnection.Handlers(
                connected: { [weak self] _ in self?.connected() },
                received: { [weak self] _, bytes in
                    self?.received(bytes)
                    return bytes.count
                }, closed: { [weak self] _, reason in self?.closed(reason) }))
    }

    // MARK: State

    /// The error of a request whose time limit passes while the connection waits for the proxy; `nil` if the connection
    /// does not wait for a proxy.
    var relayDelay: StreamTunnel.Failure? { stream?.relayDelay }

    var isOpen: Bool { state == .open }

    /// Whether the connection is healthy and can take another request, now or after an active request.
    var isGood: Bool { state == .open && !isRetired && sickSince == nil && client.acceptsRequests }

    var hasRoom: Bool { client.hasRoom }

    var isSick: Bool { sickSince != nil }

    /// Whether the server's SETTINGS have arrived, so that the connection works.
    var hasWorked: Bool { client.hasSettings }

    /// Whether the connection has as many active requests as the server allows. A new connection may have a low limit
    /// at first, so a low limit alone does not make this property true.
    var isUsedUp: Bool { client.openCount >= client.streamLimit && client.streamLimit >= Self.usualStreams }

    private static let usualStreams = 100

    /// Whether the connection can be closed, because it has no active requests and accepts no new requests.
    var isDone: Bool { state == .open && client.openCount == 0 && (isRetired || !client.acceptsRequests) }

    var outputCount: Int { (stream?.outputCount ?? 0) + client.outputCount }

    // MARK: Requests

    /// Starts a request on the connection.
    ///
    /// - Returns: whether the request was started.
    func start(_ exchange: HTTPExchange, now: Instant) -> Bool {
        let request = exchange.request
        let wasIdle = client.openCount == 0
        head.write(request)
        let index = client.start(&head.block, body: request.body, answerLimit: request.responseLimit)
        guard let index else { return false }
        while exchanges.count <= index { exchanges.append(nil) }
        exchanges[index] = exchange
        exchange.connection = self
        exchange.stream = index
        exchange.tries += 1
        if wasIdle { becameBusy(now: now) }
        return true
    }

    /// Cancels a request, and tells the server that the response is not needed.
    func cancel(_ index: Int) {
        guard exchanges.indices.contains(index), exchanges[index] != nil else { return }
        exchanges[index] = nil
        client.cancel(index)
    }

    func write() {
        guard state == .open else { return }
        client.takeOutput { stream?.send($0) }
    }

    /// Makes the connection accept no more requests.
    func retire() { isRetired = true }

    // MARK: Events

    private func connected() {
        guard state == .opening, let origin else { return }
        guard stream?.tls?.applicationProtocol == "h2" else { return origin.openedWithoutHTTP2(self) }
        state = .open
        let now = loop.now
        opened = now
        idleSince = now
        heard(now: now)
        origin.opened(self)
    }

    private func received(_ bytes: Span<UInt8>) {
        guard state == .open, let origin else { return }
        let now = loop.now
        heard(now: now)
        let goesOn = client.received(bytes)
        origin.goOn { finish(for: origin, now: now) }
        guard state == .open, !goesOn else { return }
        // The nghttp2 session has ended: the server has answered all requests after a GOAWAY, or violated the protocol.
        write()
        end(HTTPClientError(.reset, detail: ending("the server ended the connection")))
    }

    private func finish(for origin: HTTP2Origin, now: Instant) {
        client.takeFinished(into: &finished)
        guard !finished.isEmpty else { return }
        var list: [HTTP2Client.Finished] = []
        swap(&list, &finished)
        var refused: [HTTPExchange] = []
        for event in list {
            guard let exchange = exchanges[event.stream] else { continue }
            exchanges[event.stream] = nil
            if case .refused = event.outcome {
                refused.append(exchange)
            } else {
                exchange.finish(outcome(of: exchange, event.outcome, now: now))
            }
        }
        if client.openCount == 0 { becameIdle(now: now) }
        quietPings = 0
        list.removeAll(keepingCapacity: true)
        finished = list
        guard !refused.isEmpty else { return }
        isRetired = true
        let error = HTTPClientError(.reset, detail: ending("the server refuses the request"))
        origin.sendAgain(refused, error)
    }

    var hasFinished: Bool { client.hasFinished }

    /// Reports the results of requests that ended while the connection sent its output.
    func finishRest() {
        guard state == .open, let origin else { return }
        origin.goOn { finish(for: origin, now: loop.now) }
    }

    private func outcome(
        of exchange: HTTPExchange, _ outcome: HTTP2Client.Outcome, now: Instant
    ) -> Result<HTTPClientResponse, HTTPClientError> {
        func success(_ response: HTTP2Client.Response) -> Result<HTTPClientResponse, HTTPClientError> {
            .success(
                HTTPClientResponse(
                    status: response.status, version: .http2, head: response.head, body: response.body,
                    duration: now - exchange.started, isNewConnection: exchange.opensConnection))
        }
        switch outcome {
        case .answered(let response): return success(response)
        case .refused: return .failure(HTTPClientError(.reset, detail: "refused"))
        case .reset(let code):
            return .failure(HTTPClientError(.reset, detail: ending("stream ended with \(code)")))
        case .malformed(let code):
            return .failure(HTTPClientError(.badResponse, detail: "stream ended with \(code)"))
        case .bodyTooLarge(let head):
            return exchange.request.dropsLongBody ? success(head) : .failure(HTTPClientError(.bodyTooLarge))
        case .unsendable(let reason): return .failure(HTTPClientError(.invalidRequest, detail: reason))
        }
    }

    private func ending(_ what: String) -> String {
        guard let goAway = client.goAway else { return what }
        return "\(what), GOAWAY \(goAway.code) \(goAway.reason)"
    }

    private func closed(_ reason: StreamCloseReason) {
        guard state != .closed, let origin else { return }
        let error =
            if case .tunnel(let failure) = reason, let proxy = origin.key.proxy {
                proxy.error(.tunnel(failure))
            } else {
                HTTPClientError(reason, whileOpening: state == .opening || !hasWorked)
            }
        if state == .opening {
            state = .closed
            origin.openingFailed(self, error)
        } else {
            end(HTTPClientError(error.code, detail: ending(error.detail)))
        }
    }

    /// Ends the connection after an error. Requests that were already sent over the connection fail with the error.
    /// Unsent requests of the connection move to another connection.
    func end(_ error: HTTPClientError) {
        guard state == .open, let origin else { return }
        // Complete responses that arrived before the error are still reported.
        retire()
        if client.hasFinished { origin.goOn { finish(for: origin, now: loop.now) } }
        guard state == .open else { return }
        let unsent = stream?.unsentCount ?? 0
        let under = exchanges.compactMap { $0 }
        var written: [HTTPExchange] = []
        var unwritten: [HTTPExchange] = []
        for exchange in under {
            if client.wasWritten(exchange.stream, unsentCount: unsent) {
                written.append(exchange)
            } else {
                unwritten.append(exchange)
            }
        }
        // If the waiting output has unsent requests, the output is dropped, and another connection will send these
        // requests.
        shut(flushing: unwritten.isEmpty)
        origin.lost(self, error, written: written, unwritten: unwritten)
    }

    /// Closes the connection.
    ///
    /// - Returns: the requests that were active on the connection.
    func close() -> [HTTPExchange] {
        guard state != .closed else { return [] }
        let under = exchanges.compactMap { $0 }
        if state == .open {
            client.close()
            write()
        }
        shut(flushing: true)
        return under
    }

    private func shut(flushing: Bool) {
        state = .closed
        exchanges = []
        checkTimer = nil
        stream?.close(flushing: flushing)
        stream = nil
    }
}

extension HTTPClientError {
    init(_ reason: StreamCloseReason, whileOpening: Bool) {
        switch reason {
        case .peerClosed: self.init(whileOpening ? .connect : .reset, detail: "the server closed the connection")
        case .system(let error): self.init(whileOpening ? .connect : .reset, detail: error.reason)
        // With TLS 1.3, the server checks the client's certificate after the client's handshake has ended.
        case .tls(let text): self.init(whileOpening ? .tls : .reset, detail: text)
        case .tunnel(let failure): self.init(.proxy, detail: "\(failure)")
        case .openTimeout: self.init(.timeout, detail: "no connection in time")
        case .idle, .outputStalled, .outputOverflow, .inputOverflow, .finished: self.init(.reset, detail: "\(reason)")
        }
    }
}
