package import Addressing
package import Crypto
internal import Synchronization
internal import Timekeeping

/// Why a connection ended without our asking for it.
package enum StreamCloseReason: Hashable, Sendable {
    case peerClosed
    /// Connecting, reading or writing failed: refused, unreachable, reset.
    case system(SystemError)
    /// The handshake failed or a record was bad; the text is OpenSSL's.
    case tls(String)
    /// TCP or TLS was not established in time.
    case openTimeout
    /// Nothing arrived for the time allowed.
    case idle
    /// The peer takes no bytes any more.
    case outputStalled
    /// More bytes waited to be sent than allowed.
    case outputOverflow
    /// More bytes waited to be consumed than allowed: the handler found no end of a message in them.
    case inputOverflow
}

/// A TCP, TLS or Unix-domain connection, accepted or made by us.
///
/// Lives as long as somebody holds it; releasing it closes it. Handlers are called on the loop's thread, never from
/// within a call to the connection.
///
/// - `@unchecked Sendable` because every use is checked to be on the loop's thread.
package final class StreamConnection: @unchecked Sendable {
    /// What happens on a connection. One value may serve many connections.
    package struct Handlers {
        /// Open both ways, TLS included; once and first.
        package var connected: (StreamConnection) -> Void
        /// All bytes that wait, lent for the call; gives how many were used. The rest comes again with what follows it.
        package var received: (StreamConnection, Span<UInt8>) -> Int
        /// The end, once and last; not after ``StreamConnection/close(flushing:)``.
        package var closed: (StreamConnection, StreamCloseReason) -> Void

        package init(
            connected: @escaping (StreamConnection) -> Void,
            received: @escaping (StreamConnection, Span<UInt8>) -> Int,
            closed: @escaping (StreamConnection, StreamCloseReason) -> Void
        ) {
            self.connected = connected
            self.received = received
            self.closed = closed
        }
    }

    /// Limits of one connection.
    package struct Limits: Hashable, Sendable {
        /// Bytes that may wait for the handler to use them: more than the longest message.
        package var input = 128 << 10
        /// Bytes that may wait for the peer to take them.
        package var output = 256 << 10
        /// For TCP and TLS together.
        package var openTimeout: Duration = .seconds(10)
        /// How long the peer may take no byte while some wait.
        package var outputTimeout: Duration = .seconds(30)
        /// When it is called and written to.
        package var turn = LoopTurn.usual

        package init() {}
    }

    enum State {
        /// TCP is being established. Next: `handshaking`, `open`, `closed`.
        case connecting
        /// TLS is being established. Next: `open`, `closed`.
        case handshaking
        /// Next: `closing`, `closed`.
        case open
        /// We have closed, and what waits is still sent. Next: `closed`.
        case closing
        case closed
    }

    /// Never used twice in this process; 0 is never used.
    package let id: UInt64
    /// `0.0.0.0:0` on Unix-domain sockets.
    package let remote: Endpoint
    /// Our own side; known once connected.
    private(set) package var local: Endpoint
    /// The TLS session, `nil` on plain connections.
    package let tls: TLSSession?

    let loop: EventLoop
    private let limits: Limits
    private var state: State
    private var handlers: Handlers?
    private var connecting: FileWatch?
    private var pendingDescriptor: Descriptor?
    private var buffer: StreamBuffer?
    private var openTimer: LoopTimer?
    private var idleTimeout: Duration?
    /// What was sent before the connection could take it.
    private var early: [UInt8] = []
    /// Tells the listener that its connection is gone.
    private let ended: @Sendable () -> Void

    private static let lastID = Atomic<UInt64>(0)
    private static let nowhere = Endpoint(.anyV4, 0)

    /// An accepted connection; it does nothing until ``start(_:)``.
    init(
        accepted descriptor: consuming Descriptor, on loop: EventLoop, tls: TLSSession?, limits: Limits,
        ended: @escaping @Sendable () -> Void
    ) {
        id = Self.lastID.add(1, ordering: .relaxed).newValue
        self.loop = loop
        self.tls = tls
        self.limits = limits
        self.ended = ended
        state = .handshaking
        remote = System.remoteEndpoint(descriptor.number) ?? Self.nowhere
        local = System.localEndpoint(descriptor.number) ?? Self.nowhere
        System.setNoDelay(descriptor.number)
        pendingDescriptor = consume descriptor
    }

    /// A connection on its way to `target`.
    private init(
        connecting descriptor: consuming Descriptor, to target: Endpoint, on loop: EventLoop, tls: TLSSession?,
        limits: Limits
    ) {
        id = Self.lastID.add(1, ordering: .relaxed).newValue
        self.loop = loop
        self.tls = tls
        self.limits = limits
        ended = {}
        state = .connecting
        remote = target
        local = System.localEndpoint(descriptor.number) ?? Self.nowhere
        System.setNoDelay(descriptor.number)
        pendingDescriptor = consume descriptor
    }

    deinit {
        // A buffer that is still there closes the connection by its own deinit.
        if state != .closed { ended() }
    }

    // MARK: Opening

    /// Starts to connect; success and failure come to the handlers, except what fails at once for lack of resources.
    package static func connect(
        to target: Endpoint, on loop: EventLoop, tls: TLSSession? = nil, limits: Limits = Limits(), handlers: Handlers
    ) throws(SystemError) -> StreamConnection {
        loop.checkThread()
        let descriptor = try System.unboundSocket(for: target)
        let failure = System.connect(descriptor.number, to: target)
        let connection = StreamConnection(
            connecting: descriptor, to: target, on: loop, tls: tls, limits: limits)
        try connection.start(handlers)
        if let failure { connection.failLater(.system(failure)) }
        return connection
    }

    package static func connect(
        toUnixSocket path: String, on loop: EventLoop, limits: Limits = Limits(), handlers: Handlers
    ) throws(SystemError) -> StreamConnection {
        loop.checkThread()
        let connection = StreamConnection(
            connecting: try System.connectedUnixSocket(to: path), to: nowhere, on: loop, tls: nil, limits: limits)
        try connection.start(handlers)
        return connection
    }

    /// Sets the handlers of an accepted connection and lets it run. Once, when it is accepted.
    package func start(_ handlers: Handlers) throws(SystemError) {
        loop.checkThread()
        precondition(self.handlers == nil, "a connection is started once")
        self.handlers = handlers
        if state == .connecting || tls != nil {
            let timer = try LoopTimer(on: loop) { [weak self] in self?.fail(.openTimeout) }
            timer.arm(at: SystemClock.now + limits.openTimeout)
            openTimer = timer
        }
        if state == .connecting {
            guard let descriptor = pendingDescriptor?.number else { return }
            let watch = try FileWatch(descriptor: descriptor, on: loop) { [weak self] _ in self?.connectFinished() }
            try watch.watch(for: .write)
            connecting = watch
        } else {
            try established()
        }
    }

    private func connectFinished() {
        guard state == .connecting, let descriptor = pendingDescriptor?.number else { return }
        connecting = nil
        if let failure = System.pendingError(descriptor) { return fail(.system(failure)) }
        local = System.localEndpoint(descriptor) ?? local
        state = .handshaking
        do {
            try established()
        } catch {
            fail(.system(error))
        }
    }

    /// TCP stands: hands the descriptor to libevent.
    private func established() throws(SystemError) {
        guard let descriptor = pendingDescriptor.take() else { return }
        let buffer = try StreamBuffer(descriptor, on: loop, tls: tls, turn: limits.turn)
        buffer.setTarget(self)
        buffer.limitInput(to: limits.input)
        self.buffer = buffer
        // Not from here: the caller may still be about to store us.
        if tls == nil { loop.post { [weak self] in self?.handshakeFinished() } }
    }

    // MARK: Use

    /// Copies the bytes to the output; before the connection is open they wait for that. Nothing happens once closed.
    package func send(_ bytes: Span<UInt8>) {
        loop.checkThread()
        switch state {
        case .connecting, .handshaking:
            guard early.count + bytes.count <= limits.output else { return failLater(.outputOverflow) }
            unsafe bytes.withUnsafeBufferPointer { unsafe early.append(contentsOf: $0) }
        case .open:
            guard let buffer else { return }
            buffer.write(bytes)
            if buffer.outputCount > limits.output { failLater(.outputOverflow) }
        case .closing, .closed: break
        }
    }

    package func send(_ bytes: [UInt8]) { send(bytes.span) }

    /// Ends the connection when nothing arrives for that long; `nil` takes the limit away. At first there is none.
    package func setIdleTimeout(_ timeout: Duration?) {
        idleTimeout = timeout
        if state == .open { buffer?.setTimeouts(input: timeout, output: limits.outputTimeout) }
    }

    /// Stops reading, so that the peer is held up by TCP, or goes on.
    package func setReading(_ isOn: Bool) {
        guard state == .open else { return }
        buffer?.setReading(isOn)
    }

    /// Ends the connection, without a call to a handler; when flushing, after what waits was sent or stalled.
    package func close(flushing: Bool = false) {
        loop.checkThread()
        guard flushing, state == .open, let buffer, buffer.outputCount > 0 else { return end() }
        state = .closing
        handlers = nil
        buffer.setReading(false)
        // Somebody must hold the connection until the rest is sent; the cycle ends with the buffer.
        lingering = self
    }

    private var lingering: StreamConnection?

    package var isOpen: Bool { state == .open }

    /// Bytes that wait to be sent; once the connection has ended, those that never were.
    package var outputCount: Int { state == .closed ? unsentCount : early.count + (buffer?.outputCount ?? 0) }

    private var unsentCount = 0

    // MARK: Ending

    private func fail(_ reason: StreamCloseReason) {
        guard state != .closed else { return }
        let handlers = handlers
        end()
        handlers?.closed(self, reason)
    }

    /// For failures found in a call from the owner, who does not expect to be called back out of it.
    private func failLater(_ reason: StreamCloseReason) {
        buffer?.setReading(false)
        loop.post { [weak self] in self?.fail(reason) }
    }

    private func end() {
        guard state != .closed else { return }
        unsentCount = outputCount
        state = .closed
        handlers = nil
        connecting = nil
        openTimer = nil
        buffer = nil
        pendingDescriptor = nil
        early = []
        lingering = nil
        ended()
    }
}

extension StreamConnection: StreamBufferTarget {
    func handshakeFinished() {
        guard state == .handshaking, let buffer else { return }
        state = .open
        openTimer = nil
        buffer.setTimeouts(input: idleTimeout, output: limits.outputTimeout)
        buffer.setReading(true)
        if !early.isEmpty {
            buffer.write(early.span)
            early = []
        }
        handlers?.connected(self)
    }

    func inputArrived() {
        guard state == .open, let buffer, let handlers else { return }
        // Handler and buffer stay alive in these locals even when the handler closes the connection.
        buffer.consumeInput { handlers.received(self, $0) }
        if state == .open, buffer.inputCount >= limits.input { fail(.inputOverflow) }
    }

    func outputDrained() {
        if state == .closing { end() }
    }

    func failed(_ reason: StreamCloseReason) {
        // With TLS the end is told before the bytes that came with it.
        inputArrived()
        fail(reason)
    }
}
