import CEvent
import Crypto
import Timekeeping

/// The input and output of one connection, with or without TLS. Output is sent immediately, or all together when the
/// input handler has returned.
///
/// All streams of the loop read into the same memory, and TLS sessions decrypt and encrypt in memory (``TLSRecords``).
/// A message needs one system call for input and one for output, and an idle connection has no buffer.
///
/// A connection gets its stream when TCP is established, or after the handshake for an accepted TLS connection. A new
/// stream does not read until reading is turned on, except for the handshake of a TLS client.
///
/// No weak reference to the stream exists, because objects with weak references are slower to retain in Swift.
final class SocketStream {
    private let loop: EventLoop
    private let turn: LoopTurn
    let descriptor: LoopDescriptor
    /// The session that encrypts the stream; `nil` for a plain connection.
    private let session: TLSSession?
    /// Whether a TLS client has not finished its handshake.
    private var isShakingHands = false
    private var readable: LoopEvent?
    /// The event that fires when the kernel accepts more output; `nil` while no output waits.
    private var writable: LoopEvent?
    private unowned let connection: StreamConnection
    private let share: StreamShare
    private var isReading = false
    /// The maximum number of bytes that are read in one step.
    var inputLimit = Int.max
    /// The output that is not completely sent; the kernel has accepted the first `sent` bytes. With TLS, the output is
    /// encrypted.
    private var waiting: [UInt8] = []
    private var sent = 0
    /// How many more bytes TLS has added to the waiting output, or to its part that was sent.
    private var overhead = 0
    private var isGathering = false
    /// The number of waiting bytes at which the connection is notified that output was sent.
    var outputMark = 0

    // The time limits of the stream's input and output. For each byte, only its instant is recorded. The timer computes
    // the new deadline when it fires.
    private var inputTimeout: Duration?
    /// The time limit for waiting output; `nil` during the handshake, whose time the connection limits.
    private var outputTimeout: Duration?
    /// When the last byte of input arrived, or when reading was resumed.
    private var heard = Instant.distantPast
    /// When the kernel accepted the last byte of waiting output.
    private var progressed = Instant.distantPast
    private var deadline = Instant.distantFuture
    private var deadlineID = DeadlineID.none

    /// Takes ownership of the descriptor of a connected socket. A TLS client begins its handshake now; a TLS server has
    /// already finished its handshake.
    init(_ connected: consuming Descriptor, of connection: StreamConnection, turn: LoopTurn) throws(SystemError) {
        loop = connection.loop
        share = connection.loop.streams
        self.connection = connection
        self.turn = turn
        session = connection.tls
        let descriptor = LoopDescriptor(connected, on: connection.loop)
        self.descriptor = descriptor
        let event = try LoopEvent(
            loop: connection.loop, number: descriptor.number, flags: EV_READ | EV_PERSIST, turn: turn)
        readable = event
        event.setTarget(connection)
        if let session, !session.isServer { try shakeHands(session) }
    }

    deinit {
        // Events are removed before the descriptor is closed, because a new file can get the same descriptor number.
        readable = nil
        writable = nil
        if let session, waiting.isEmpty {
            let (loop, descriptor) = (loop, descriptor)
            loop.dispose { Self.sayGoodbye(session, on: descriptor, of: loop) }
        }
        guard deadlineID != .none else { return }
        let (loop, turn, deadlineID) = (loop, turn, deadlineID)
        loop.dispose { loop.streams.deadlines(for: turn).cancel(deadlineID) }
    }

    // MARK: Input

    func setReading(_ isOn: Bool) throws(SystemError) {
        guard isOn != isReading else { return }
        if isOn { try readable?.add() } else { readable?.remove() }
        isReading = isOn
        heard = SystemClock.now
        updateDeadline()
    }

    /// Reads once from the socket, and passes the input to the connection. The connection reads its next input only
    /// after other connections were served.
    private func read(for connection: StreamConnection) throws(SystemError) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try System.receive(descriptor.number, into: room) else { return }
        guard count > 0 else { return connection.failed(.peerClosed) }
        if inputTimeout != nil { heard = SystemClock.now }
        let input = unsafe Span(_unsafeElements: room).extracting(first: count)
        guard let session else { return connection.received(input) }
        let records = share.records
        let opened = session.open(input, with: records)
        let failure = finishOpening(opened, session, records)
        if isShakingHands, session.hasShakenHands {
            isShakingHands = false
            connection.handshakeFinished()
        }
        if opened.count > 0 { records.withOpened(opened.count) { connection.received($0) } }
        if let failure { connection.failed(failure) }
    }

    /// Sends the records that OpenSSL has written while it read input: handshakes, alerts and new keys.
    ///
    /// - Returns: why the connection must end; `nil` if it goes on.
    private func finishOpening(_ opened: TLSSession.Opened, _ session: TLSSession, _ records: TLSRecords)
        -> StreamCloseReason?
    {
        var failure: StreamCloseReason?
        do {
            connection.outputGrew(to: try transmit(records, of: 0))
        } catch {
            failure = .system(error)
        }
        return Self.reason(opened.end) ?? failure
    }

    private static func reason(_ end: TLSSession.HandshakeStep) -> StreamCloseReason? {
        switch end {
        case .done, .wantsInput, .wantsOutput: nil
        case .ended: .peerClosed
        case .broken(let code): .system(SystemError(call: "SSL_read", code: code))
        case .failed(let reason): .tls(reason)
        }
    }

    /// Reads the peer's last input at the end of the connection, and passes it to `body`. Errors in reading the last
    /// input are ignored.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try? System.receive(descriptor.number, into: room), count > 0 else { return }
        let input = unsafe Span(_unsafeElements: room).extracting(first: count)
        guard let session else { return body(input) }
        let records = share.records
        let opened = session.open(input, with: records)
        records.dropOutput()
        if opened.count > 0 { records.withOpened(opened.count, body) }
    }

    // MARK: TLS

    /// Begins the handshake of a TLS client. The connection limits the handshake's time, and learns its end from
    /// ``read(for:)``.
    private func shakeHands(_ session: TLSSession) throws(SystemError) {
        let records = share.records
        guard session.beginInMemory() else { throw SystemError(call: "BIO_new", code: SystemError.outOfMemory) }
        isShakingHands = true
        if let reason = Self.reason(session.shakeHands(with: records)) {
            loop.post { [weak connection] in connection?.failed(reason) }
        }
        _ = try transmit(records, of: 0)
        try setReading(true)
    }

    /// Sends close_notify to the peer. The notice is lost if the kernel accepts no more output.
    private static func sayGoodbye(_ session: TLSSession, on descriptor: LoopDescriptor, of loop: EventLoop) {
        let records = loop.streams.records
        session.shutDown(with: records)
        records.takeOutput { _ = try? System.send(descriptor.number, $0) }
    }

    /// Sends the output of TLS, which contains `plainCount` bytes of the connection's output.
    private func transmit(_ records: TLSRecords, of plainCount: Int) throws(SystemError) -> Int {
        try records.takeOutput { bytes throws(SystemError) in
            guard !bytes.isEmpty else { return }
            overhead += bytes.count - plainCount
            try transmit(bytes)
            if waiting.isEmpty { overhead = 0 }
        }
        return waiting.count - sent
    }

    // MARK: Output

    /// Duplicates the socket's descriptor. With the duplicate, the daemon notices the end of the peer's output even
    /// after the stream was released. A TLS peer gets close_notify before.
    func duplicateSocket() -> Descriptor? {
        if let session, waiting.isEmpty { Self.sayGoodbye(session, on: descriptor, of: loop) }
        return try? System.duplicate(descriptor.number)
    }

    /// The size in bytes of the output that waits to be sent.
    var outputCount: Int { waiting.count - sent + gatheredCount }

    /// How many of the last bytes of the connection's output were certainly not sent. With TLS, a few more can be unsent.
    var unsentCount: Int { max(waiting.count - sent - overhead, 0) + gatheredCount }

    private var gatheredCount: Int { isGathering ? share.gathered.count : 0 }

    /// Collects output until ``endGathering(sending:)``, so that answers to several requests are sent together.
    func gather() {
        guard !share.isGathering else { return }
        share.isGathering = true
        isGathering = true
    }

    /// Sends the collected output, or drops it if the connection has ended.
    ///
    /// - Returns: the number of bytes that still wait for the peer.
    func endGathering(sending: Bool) throws(SystemError) -> Int {
        guard isGathering else { return waiting.count - sent }
        share.isGathering = false
        isGathering = false
        var bytes: [UInt8] = []
        swap(&bytes, &share.gathered)
        defer {
            bytes.removeAll(keepingCapacity: true)
            swap(&bytes, &share.gathered)
        }
        return sending && !bytes.isEmpty ? try write(bytes.span) : waiting.count - sent
    }

    /// Sends the bytes, or queues them behind waiting output.
    ///
    /// - Returns: the number of bytes that still wait for the peer.
    func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
        if isGathering, share.gathered.count + bytes.count > StreamShare.size {
            _ = try endGathering(sending: true)
            gather()
        }
        if isGathering, waiting.isEmpty, bytes.count <= StreamShare.size {
            share.gathered.appendSparingly(bytes)
            return 0
        }
        if let session {
            let records = share.records
            guard session.seal(bytes, with: records) else {
                throw SystemError(call: "SSL_write", code: SystemError.protocolError)
            }
            return try transmit(records, of: bytes.count)
        }
        try transmit(bytes)
        return waiting.count - sent
    }

    private func transmit(_ bytes: Span<UInt8>) throws(SystemError) {
        guard waiting.isEmpty else { return waiting.appendSparingly(bytes) }
        let taken: Int
        do {
            taken = try System.send(descriptor.number, bytes) ?? 0
        } catch {
            // The output counts as unsent, so that an HTTP/2 client sends these requests again.
            waiting.appendSparingly(bytes)
            throw error
        }
        guard taken < bytes.count else { return }
        waiting.appendSparingly(bytes.extracting(taken..<bytes.count))
        let event = try LoopEvent(loop: loop, number: descriptor.number, flags: EV_WRITE | EV_PERSIST, turn: turn)
        event.setTarget(connection)
        try event.add()
        writable = event
        progressed = SystemClock.now
        updateDeadline()
    }

    /// Sends more of the waiting output, when the kernel accepts output again.
    private func flush(for connection: StreamConnection) throws(SystemError) {
        let bytes = waiting
        guard let taken = try System.send(descriptor.number, bytes.span.extracting(sent..<bytes.count)) else { return }
        progressed = SystemClock.now
        sent += taken
        if sent == waiting.count {
            waiting = []
            sent = 0
            overhead = 0
            writable = nil
        } else if sent > waiting.count / 2 {
            waiting = Array(waiting[sent...])
            sent = 0
        }
        if waiting.count - sent <= outputMark { connection.outputDrained() }
    }

    // MARK: Time

    /// Sets two time limits: for a silent peer while reading is on (`nil` for no limit), and for output of which the
    /// peer reads nothing.
    func setTimeouts(input: Duration?, output: Duration) {
        inputTimeout = input
        outputTimeout = output
        heard = SystemClock.now
        updateDeadline()
    }

    private var idleEnd: Instant {
        guard isReading, let inputTimeout else { return .distantFuture }
        return heard + inputTimeout
    }

    private var stallEnd: Instant {
        guard !waiting.isEmpty, let outputTimeout else { return .distantFuture }
        return progressed + outputTimeout
    }

    private func updateDeadline() {
        let next = min(idleEnd, stallEnd)
        guard next < deadline else { return }
        let deadlines = share.deadlines(for: turn)
        if deadlineID != .none { deadlines.cancel(deadlineID) }
        deadline = next
        deadlineID = deadlines.schedule(connection, at: next)
    }

    /// Checks the time limits when the stream's deadline is reached. Returns the reason if the stream must be closed,
    /// or `nil` if the deadline has moved.
    func deadlineReached(now: Instant) -> StreamCloseReason? {
        deadline = .distantFuture
        deadlineID = .none
        if stallEnd <= now { return .outputStalled }
        if idleEnd <= now { return .idle }
        updateDeadline()
        return nil
    }

    /// Handles an event of the socket: input has arrived, or the kernel accepts output again.
    func fired(_ cause: Int16, for connection: StreamConnection) {
        do {
            if cause & Int16(EV_WRITE) != 0 { try flush(for: connection) } else { try read(for: connection) }
        } catch {
            connection.failed(.system(error))
        }
    }
}

extension [UInt8] {
    /// Appends the bytes; the array grows by an eighth of its size at a time. Little spare memory is reserved, because
    /// every connection can have a waiting output, which is usually short.
    mutating func appendSparingly(_ bytes: Span<UInt8>) {
        let needed = count + bytes.count
        if capacity < needed { reserveCapacity(needed + Swift.max(needed / 8, 64)) }
        unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
    }
}
