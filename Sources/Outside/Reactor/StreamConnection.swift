package import Addressing
package import Crypto
import Synchronization
import Timekeeping

/// A TCP, TLS or Unix-domain connection that the daemon accepted or opened.
///
/// The release of the last reference closes the connection. Handlers run on the loop's thread, but never inside a
/// method of the connection.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class StreamConnection: @unchecked Sendable {
    enum State {
        /// TCP is establishing the connection; `handshaking`, `open` or `closed` follows.
        case connecting
        /// The TLS handshake runs; `open` or `closed` follows.
        case handshaking
        /// The connection carries data; `closing` or `closed` follows.
        case open
        /// The daemon has closed the connection, but still sends waiting output; `closed` follows.
        case closing
        case closed
    }

    /// The exchange with which some connections begin: a load balancer sends a PROXY header, or a relay opens a tunnel.
    private enum Preface {
        case proxyHeader(ProxyHeaderWait)
        case tunnel(TunnelOpening)
    }

    /// A number that is unique in this process, and never 0.
    package let id: UInt64
    /// The address of the peer, as named by a load balancer if one is used. A peer on a Unix-domain socket has the
    /// address `0.0.0.0:0`.
    private(set) package var remote: Endpoint
    /// The local address, known when the connection is established.
    private(set) package var local: Endpoint
    /// The TLS session; `nil` for a plain connection.
    package let tls: TLSSession?
    /// The priority of the connection's events, which must not change after ``start(_:)``.
    package var turn: LoopTurn

    let loop: EventLoop
    private let limits: Limits
    /// The maximum size in bytes of the waiting output; initially ``Limits/output``.
    package var outputLimit: Int
    package var outputMark: Int? {
        didSet { if let outputMark { stream?.outputMark = outputMark / 4 } }
    }
    /// Whether the peer gets up to two seconds to read the last output before the socket is closed. If a socket is
    /// closed while input is unread or arrives, the peer loses the last output.
    package var waitsForPeersEnd = false
    private var state: State
    private var handlers: Handlers?
    private var connecting: FileWatch?
    private var preface: Preface?
    private var pendingDescriptor: Descriptor?
    private(set) var stream: SocketStream?
    private var openTimer: LoopTimer?
    private var handshake: PendingHandshake?
    private var idleTimeout: Duration?
    /// Input that the handler has received but not used. The array grows with the input, so that an incomplete message
    /// uses little memory.
    private var kept: [UInt8] = []
    /// Whether ``setReading(_:)`` has turned reading on.
    private var wantsReading = true
    /// Whether more output waits than ``outputMark`` allows.
    package private(set) var isHeldUp = false
    /// Whether the handler has called ``endTurn()``; unused input then waits until other connections were served.
    private var isTurnOver = false
    private var isReading = false
    /// The reason for closing the connection, reported after all output was sent.
    private var endReason: StreamCloseReason?
    /// Whether the connection has ended, but its end is not handled yet.
    private var isEnding = false
    /// Output that the owner sent before the connection was open.
    private var early: [UInt8] = []
    /// Tells the listener that the connection has ended.
    private let ended: @Sendable () -> Void

    private static let lastID = Atomic<UInt64>(0)
    private static let nowhere = Endpoint(.anyV4, 0)

    /// Creates a connection, which does nothing until ``start(_:)``. If `target` is set, the daemon connects to that
    /// address; otherwise the daemon has accepted the connection.
    init(
        _ descriptor: consuming Descriptor, connectingTo target: Endpoint? = nil, on loop: EventLoop, tls: TLSSession?,
        limits: Limits, ended: @escaping @Sendable () -> Void = {}
    ) {
        id = Self.lastID.add(1, ordering: .relaxed).newValue
        self.loop = loop
        self.tls = tls
        self.limits = limits
        turn = limits.turn
        outputLimit = limits.output
        outputMark = limits.outputMark
        self.ended = ended
        state = target == nil ? .handshaking : .connecting
        remote = target ?? System.remoteEndpoint(descriptor.number) ?? Self.nowhere
        local = System.localEndpoint(descriptor.number) ?? Self.nowhere
        System.setNoDelay(descriptor.number)
        pendingDescriptor = consume descriptor
    }

    /// The user at the other end of a Unix-domain socket, from the kernel; `nil` for other sockets, and after
    /// ``start(_:)``.
    package var peerUser: UInt32? {
        guard let descriptor = pendingDescriptor?.number else { return nil }
        return System.peerUser(descriptor)
    }

    deinit {
        // If the connection has a stream, the stream's `deinit` closes the socket.
        if state != .closed { ended() }
    }

    // MARK: Opening

    /// Starts to connect, and reports success or failure to the handlers. An error is thrown only for an immediate
    /// failure: a lack of resources, or a `source` that this machine does not have. If `source` is `nil` or the
    /// unspecified address, the kernel chooses the source address. If a `tunnel` is given, the target is a relay, and
    /// TLS is used with the server behind the relay.
    package static func connect(
        to target: Endpoint, from source: IPAddress? = nil, on loop: EventLoop, through tunnel: StreamTunnel? = nil,
        tls: TLSSession? = nil, limits: Limits = Limits(), handlers: Handlers
    ) throws(SystemError) -> StreamConnection {
        loop.checkThread()
        let descriptor = try System.connectingSocket(to: target, from: source)
        let failure = System.connect(descriptor.number, to: target)
        let connection = StreamConnection(descriptor, connectingTo: target, on: loop, tls: tls, limits: limits)
        connection.preface = tunnel.map { .tunnel(TunnelOpening($0)) }
        try connection.start(handlers)
        if let failure { connection.failLater(connection.unreachable(failure)) }
        return connection
    }

    /// Sets the handlers of an accepted connection, and starts it. The listener's owner calls ``start(_:)`` once for
    /// each accepted connection.
    package func start(_ handlers: Handlers) throws(SystemError) {
        loop.checkThread()
        precondition(self.handlers == nil, "a connection is started once")
        self.handlers = handlers
        if state == .connecting || tls != nil {
            let timer = try LoopTimer(on: loop, turn: turn) { [weak self] in self?.openTimedOut() }
            timer.arm(at: SystemClock.now + limits.openTimeout)
            openTimer = timer
        }
        if state == .connecting {
            guard let descriptor = pendingDescriptor?.number else { return }
            let watch = try FileWatch(descriptor: descriptor, on: loop, turn: turn, until: openTimer) {
                [weak self] _ in
                self?.connectFinished()
            }
            try watch.watch(for: .write)
            connecting = watch
        } else {
            try established()
        }
    }

    /// Waits for the PROXY header of a load balancer, and takes the client's address in the header as ``remote``. The
    /// function must be called before ``start(_:)``.
    ///
    /// - Parameter done: called once, on the loop.
    /// - Throws: an error if memory or descriptors are lacking.
    func readProxyHeader(_ done: @escaping (ProxyHeaderWait.End) -> Void) throws(SystemError) {
        guard let descriptor = pendingDescriptor?.number else { return }
        let wait = try ProxyHeaderWait(descriptor, on: loop, turn: turn, until: SystemClock.now + limits.openTimeout) {
            [weak self] end in
            self?.preface = nil
            if case .header(let source?) = end { self?.remote = source }
            done(end)
        }
        preface = .proxyHeader(wait)
    }

    private func connectFinished() {
        guard state == .connecting, let descriptor = pendingDescriptor?.number else { return }
        connecting = nil
        if let failure = System.pendingError(descriptor) { return fail(unreachable(failure)) }
        local = System.localEndpoint(descriptor) ?? local
        do {
            if case .tunnel(let opening)? = preface {
                try opening.begin(descriptor, on: loop, turn: turn, until: openTimer) { [weak self] failure in
                    self?.tunnelEnded(failure)
                }
            } else {
                state = .handshaking
                try established()
            }
        } catch {
            fail(.system(error))
        }
    }

    private func tunnelEnded(_ failure: StreamTunnel.Failure?) {
        guard state == .connecting else { return }
        if let failure { return fail(.tunnel(failure)) }
        preface = nil
        state = .handshaking
        do {
            try established()
        } catch {
            fail(.system(error))
        }
    }

    /// The error that a connection reports if its time limit passes while it waits for a relay's answer; `nil` if it
    /// does not wait for a relay.
    package var relayDelay: StreamTunnel.Failure? {
        guard case .tunnel(let opening)? = preface else { return nil }
        return opening.isAsking ? .silent : .unreachable(SystemError(call: "connect", code: SystemError.timedOut))
    }

    private func openTimedOut() { fail(relayDelay.map { .tunnel($0) } ?? .openTimeout) }

    private func unreachable(_ error: SystemError) -> StreamCloseReason {
        relayDelay == nil ? .system(error) : .tunnel(.unreachable(error))
    }

    private func established() throws(SystemError) {
        guard let descriptor = pendingDescriptor.take() else { return }
        if let tls, tls.isServer { return try beginHandshake(descriptor, tls) }
        try take(descriptor)
        // The handler for the end of the handshake runs as a posted job, because no handler may run before the owner
        // has stored the connection.
        if tls == nil { loop.post { [weak self] in self?.handshakeFinished() } }
    }

    private func beginHandshake(_ descriptor: consuming Descriptor, _ session: TLSSession) throws(SystemError) {
        let loop = loop
        handshake = try loop.handshakes().begin(id, descriptor, session) { [weak self] end in
            loop.post { [weak self] in
                // If the connection was released meanwhile, `handshakeEnded` still closes the socket.
                loop.connectionTurns.doLater { [weak self] in Self.handshakeEnded(end, of: self) }
            }
        }
    }

    private func take(_ descriptor: consuming Descriptor) throws(SystemError) {
        let stream = try SocketStream(descriptor, of: self, turn: turn)
        stream.inputLimit = limits.input
        if let mark = outputMark { stream.outputMark = mark / 4 }
        self.stream = stream
    }

    // MARK: Use

    /// Appends the bytes to the connection's output. Sent bytes wait while the connection is being opened, and are
    /// dropped after it was closed.
    package func send(_ bytes: Span<UInt8>) {
        loop.checkThread()
        switch state {
        case .connecting, .handshaking:
            guard early.count + bytes.count <= outputLimit else { return failLater(.outputOverflow) }
            early.appendSparingly(bytes)
        case .open: write(bytes)
        case .closing, .closed: break
        }
    }

    package func send(_ bytes: [UInt8]) { send(bytes.span) }

    /// Sets how long the peer may send nothing before the connection is closed; initially `nil` for no limit.
    package func setIdleTimeout(_ timeout: Duration?) {
        idleTimeout = timeout
        if state == .open { stream?.setTimeouts(input: timeout, output: limits.outputTimeout) }
    }

    private func write(_ bytes: Span<UInt8>) {
        guard let stream else { return }
        do {
            outputGrew(to: try stream.write(bytes))
        } catch {
            outputFailed(error)
        }
    }

    func outputGrew(to count: Int) {
        if count > outputLimit { return failLater(.outputOverflow) }
        guard let mark = outputMark, count > mark, !isHeldUp else { return }
        isHeldUp = true
        updateReading()
    }

    /// Reports that writing to the connection has failed. The report is a posted job, because no handler may run while
    /// the owner uses the connection.
    private func outputFailed(_ error: SystemError) { loop.post { [weak self] in self?.failed(.system(error)) } }

    /// Stops or resumes reading from the connection. While reading is off, TCP's flow control stops the peer.
    package func setReading(_ isOn: Bool) {
        guard state == .open else { return }
        wantsReading = isOn
        updateReading()
    }

    /// Passes the open connection to another owner. The new owner gets the input `unread`, which the former owner has
    /// not used.
    package func handOver(to handlers: Handlers, unread: [UInt8]) {
        guard state == .open else { return }
        self.handlers = handlers
        kept = unread + kept
        setReading(true)
        endTurn()
    }

    /// Pauses a handler that has not used all input. The handler gets the unused input again after other ready events
    /// were handled. After ``endTurn()``, the connection reads no input until the handler is called again.
    package func endTurn() {
        guard state == .open, !isTurnOver else { return }
        isTurnOver = true
        updateReading()
        loop.post { [weak self] in self?.takeTurn() }
    }

    /// Stops reading, and ends the connection when all waiting output is sent. The handler ``Handlers/closed`` reports
    /// the end of the connection.
    package func finish() {
        guard state == .open, endReason == nil else { return }
        endReason = .finished
        setReading(false)
        kept = []
        loop.post { [weak self] in self?.endIfDone() }
    }

    /// Ends the connection without calling a handler. If `flushing` is true, the waiting output is sent first, as long
    /// as the peer reads it.
    package func close(flushing: Bool = false) {
        loop.checkThread()
        guard flushing, state == .open, let stream else { return end() }
        guard stream.outputCount > 0 else { return end(bidsFarewell: true) }
        state = .closing
        handlers = nil
        // Turning reading off cannot fail.
        try? stream.setReading(false)
        // The connection retains itself until its output is sent; the release of the stream ends the retain cycle.
        lingering = self
    }

    private var lingering: StreamConnection?

    package var isOpen: Bool { state == .open }

    /// The bytes of waiting output, or of output that was never sent before the connection ended.
    package var outputCount: Int { state == .closed ? finalOutput : early.count + (stream?.outputCount ?? 0) }

    /// How many of the last bytes given to ``send(_:)`` were certainly not sent.
    package var unsentCount: Int { state == .closed ? finalUnsent : early.count + (stream?.unsentCount ?? 0) }

    private var finalOutput = 0
    private var finalUnsent = 0

    // MARK: Ending

    private func fail(_ reason: StreamCloseReason) {
        guard state != .closed else { return }
        let handlers = handlers
        end(bidsFarewell: reason == .finished)
        handlers?.closed(self, reason)
    }

    /// Reports a failure later, because no handler may run while the owner uses the connection.
    private func failLater(_ reason: StreamCloseReason) {
        wantsReading = false
        updateReading()
        loop.post { [weak self] in self?.fail(reason) }
    }

    private func end(bidsFarewell: Bool = false) {
        guard state != .closed else { return }
        var socket: Descriptor?
        if bidsFarewell, waitsForPeersEnd { socket = stream?.duplicateSocket() }
        finalOutput = outputCount
        finalUnsent = unsentCount
        state = .closed
        handlers = nil
        connecting = nil
        preface = nil
        openTimer = nil
        handshake = nil
        stream = nil
        if let socket = socket.take() { loop.streams.farewells.bid(on: socket, of: loop) }
        pendingDescriptor = nil
        early = []
        kept = []
        lingering = nil
        ended()
    }
}

// MARK: Events of the event loop

extension StreamConnection: LoopEventTarget {
    func fired(_ cause: Int16) {
        // The local variable retains the stream if a handler closes the connection.
        if let stream { stream.fired(cause, for: self) }
        noteTurn()
    }

    /// Counts that the connection was served, and pauses it if other work must come first.
    func noteTurn() {
        guard loop.connectionTurns.mustGiveWay(after: turn), state == .open, !isTurnOver else { return }
        isTurnOver = true
        updateReading()
        loop.connectionTurns.giveWay { [weak self] in self?.takeTurn() }
    }

    func deadlineReached(now: Instant) {
        if let reason = stream?.deadlineReached(now: now) { failed(reason) }
    }

    /// Handles the end of a TLS handshake, and closes the socket if the connection was released meanwhile.
    private static func handshakeEnded(_ end: HandshakeThread.End, of connection: StreamConnection?) {
        switch end {
        case .done(let socket):
            let descriptor = Descriptor(socket)
            guard let connection, connection.state == .handshaking else { return }
            connection.handshake = nil
            do {
                try connection.take(descriptor)
            } catch {
                return connection.fail(.system(error))
            }
            connection.handshakeFinished()
        case .failed(let reason): connection?.fail(reason)
        }
    }

    func handshakeFinished() {
        guard state == .handshaking, let stream else { return }
        state = .open
        openTimer = nil
        stream.setTimeouts(input: idleTimeout, output: limits.outputTimeout)
        updateReading()
        if !early.isEmpty {
            let first = early
            early = []
            write(first.span)
        }
        handlers?.connected(self)
    }

    /// Passes the peer's last input to the handler.
    private func takeLastInput() {
        // The local variable retains the stream if the handler closes the connection.
        guard state == .open, let stream else { return }
        stream.lendInput { received($0) }
    }

    func received(_ bytes: Span<UInt8>) {
        guard state == .open else { return }
        let isWaiting = isTurnOver || isHeldUp || endReason != nil
        let mustJoin = isWaiting || !kept.isEmpty
        keep(bytes, from: mustJoin ? 0 : offer(bytes))
        if !isWaiting, mustJoin { offerKept() }
        checkInput()
    }

    func outputDrained() {
        guard let stream else { return }
        if state == .closing, stream.outputCount == 0 { return end(bidsFarewell: true) }
        guard state == .open else { return }
        if isHeldUp {
            isHeldUp = false
            offerKept()
            checkInput()
            updateReading()
            handlers?.drained(self)
        }
        endIfDone()
    }

    func failed(_ reason: StreamCloseReason) {
        // The last input may be a request, which is handled even if the peer reads no answer.
        takeLastInput()
        guard state != .closed, !isEnding else { return }
        guard turn == .connections else { return endAfterAnswers(reason) }
        isEnding = true
        wantsReading = false
        updateReading()
        // The closure retains the connection, so that it ends in order even if its owner releases it.
        loop.connectionTurns.doLater { self.endAfterAnswers(reason) }
    }

    private func endAfterAnswers(_ reason: StreamCloseReason) {
        isEnding = false
        guard reason == .peerClosed, limits.answersAfterEnd, state == .open else { return fail(reason) }
        if endReason == nil { endReason = reason }
        wantsReading = false
        updateReading()
        endIfDone()
    }

    // MARK: Unprocessed input

    private func offer(_ bytes: Span<UInt8>) -> Int {
        guard let handlers, let stream else { return bytes.count }
        stream.gather()
        let used = handlers.received(self, bytes)
        precondition(used >= 0 && used <= bytes.count, "the handler used more bytes than it got")
        do {
            outputGrew(to: try stream.endGathering(sending: state != .closed))
        } catch {
            outputFailed(error)
        }
        if state == .closing, stream.outputCount == 0 { end(bidsFarewell: true) }
        return used
    }

    private func offerKept() {
        guard state == .open, !kept.isEmpty, !isTurnOver, !isHeldUp else { return }
        var bytes = kept
        kept = []
        let used = offer(bytes.span)
        guard state == .open, endReason != .finished, used < bytes.count else { return }
        if used > 0 { bytes.removeFirst(used) }
        // An array with much spare capacity is copied, so that the memory of a long message is released.
        if bytes.capacity > 2 * bytes.count + Self.spareRoom { keep(bytes.span, from: 0) } else { kept = bytes }
    }

    private static let spareRoom = 4096

    private func keep(_ bytes: Span<UInt8>, from position: Int) {
        guard position < bytes.count, state == .open, endReason != .finished else { return }
        kept.appendSparingly(bytes.extracting(position..<bytes.count))
    }

    /// Closes the connection if too much unused input waits. After ``endTurn()``, unused input has no limit, because
    /// the connection reads no more input.
    private func checkInput() {
        if state == .open, !isTurnOver, !isHeldUp, kept.count >= limits.input { fail(.inputOverflow) }
    }

    private func takeTurn() {
        isTurnOver = false
        guard state == .open else { return }
        offerKept()
        checkInput()
        updateReading()
        endIfDone()
    }

    private func updateReading() {
        let mayRead = state == .open && wantsReading && !isHeldUp && !isTurnOver && endReason == nil
        guard mayRead != isReading, let stream else { return }
        isReading = mayRead
        do {
            try stream.setReading(mayRead)
        } catch {
            failLater(.system(error))
        }
    }

    private func endIfDone() {
        guard state == .open, let endReason, outputCount == 0, !isTurnOver, !isHeldUp else { return }
        fail(endReason)
    }
}
