import CEvent
import Timekeeping

/// The input and output of a connection without TLS.
///
/// Output is sent to the kernel immediately, or in one piece when the handler of the input has returned. Input is read
/// into memory that all streams of the loop use together. Therefore a message costs one system call for input and one
/// for output, and a silent connection uses no buffer.
///
/// The stream's events call the connection that owns the stream, so the stream itself has no weak references. An object
/// with weak references is expensive to retain, and the stream is retained several times for each message.
final class PlainStream {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let descriptor: LoopDescriptor
    private var readable: LoopEvent?
    /// The event that fires when the kernel accepts output; `nil` while no output waits.
    private var writable: LoopEvent?
    private unowned let connection: StreamConnection
    private let share: StreamShare
    private var isReading = false
    var inputLimit = Int.max
    /// The output that waits. The kernel has already accepted the bytes before the index `sent`.
    private var waiting: [UInt8] = []
    private var sent = 0
    private var isGathering = false
    var outputMark = 0

    // Time limits of input and output. To keep the work for each message small, only the time of the last byte is
    // recorded. The deadline is computed again when the timer fires.
    private var inputTimeout: Duration?
    private var outputTimeout: Duration = .zero
    /// When the last byte arrived, or when reading was resumed after a stop.
    private var heard = Instant.distantPast
    /// When the kernel accepted the last byte of waiting output.
    private var progressed = Instant.distantPast
    private var deadline = Instant.distantFuture
    private var deadlineID = DeadlineID.none

    init(_ connected: consuming Descriptor, of connection: StreamConnection, turn: LoopTurn) throws(SystemError) {
        precondition(StreamShare.turn <= turn, "a watch has an earlier turn than its deadline")
        loop = connection.loop
        share = connection.loop.streams
        self.connection = connection
        self.turn = turn
        let descriptor = LoopDescriptor(connected, on: connection.loop)
        self.descriptor = descriptor
        let event = try LoopEvent(
            loop: connection.loop, number: descriptor.number, flags: EV_READ | EV_PERSIST, turn: turn)
        readable = event
        event.setTarget(connection)
    }

    deinit {
        // The events must end before the descriptor is closed, because the next opened file may get the same descriptor
        // immediately.
        readable = nil
        writable = nil
        guard deadlineID != .none else { return }
        let (loop, deadlineID) = (loop, deadlineID)
        loop.dispose { loop.streams.cancel(deadlineID) }
    }

    // MARK: Input

    func setReading(_ isOn: Bool) throws(SystemError) {
        guard isOn != isReading else { return }
        if isOn { try readable?.add() } else { readable?.remove() }
        isReading = isOn
        heard = SystemClock.now
        updateDeadline()
    }

    /// Reads once and passes the input to the connection. More input waits until other connections were served.
    private func read(for connection: StreamConnection) throws(SystemError) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try System.receive(descriptor.number, into: room) else { return }
        guard count > 0 else { return connection.failed(.peerClosed) }
        if inputTimeout != nil { heard = SystemClock.now }
        connection.received(unsafe Span(_unsafeElements: room).extracting(first: count))
    }

    /// Passes the peer's last input to `body`, when the connection ends. Therefore errors do not matter.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try? System.receive(descriptor.number, into: room), count > 0 else { return }
        body(unsafe Span(_unsafeElements: room).extracting(first: count))
    }

    // MARK: Output

    func duplicateSocket() -> Descriptor? { try? System.duplicate(descriptor.number) }

    var outputCount: Int { waiting.count - sent + (isGathering ? share.gathered.count : 0) }

    /// Collects all output from now on instead of sending it immediately. Therefore the answers to requests that
    /// arrived together are sent together.
    func gather() {
        guard !share.isGathering else { return }
        share.isGathering = true
        isGathering = true
    }

    /// Sends the collected output, or drops it if the connection has ended.
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

    func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
        if isGathering, share.gathered.count + bytes.count > StreamShare.size {
            _ = try endGathering(sending: true)
            gather()
        }
        guard waiting.isEmpty else {
            waiting.appendSparingly(bytes)
            return waiting.count - sent
        }
        if isGathering, bytes.count <= StreamShare.size {
            share.gathered.appendSparingly(bytes)
            return 0
        }
        let taken = try System.send(descriptor.number, bytes) ?? 0
        guard taken < bytes.count else { return 0 }
        waiting.appendSparingly(bytes.extracting(taken..<bytes.count))
        let event = try LoopEvent(loop: loop, number: descriptor.number, flags: EV_WRITE | EV_PERSIST, turn: turn)
        event.setTarget(connection)
        try event.add()
        writable = event
        progressed = SystemClock.now
        updateDeadline()
        return waiting.count
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
            writable = nil
        } else if sent > waiting.count / 2 {
            waiting = Array(waiting[sent...])
            sent = 0
        }
        if waiting.count - sent <= outputMark { connection.outputDrained() }
    }

    // MARK: Time

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

    private var stallEnd: Instant { waiting.isEmpty ? .distantFuture : progressed + outputTimeout }

    private func updateDeadline() {
        let next = min(idleEnd, stallEnd)
        guard next < deadline else { return }
        if deadlineID != .none { share.cancel(deadlineID) }
        deadline = next
        deadlineID = share.schedule(connection, at: next)
    }

    /// Handles the deadline of the stream. The result is the reason for closing the connection; `nil` if the deadline
    /// has moved.
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
    /// Appends the bytes. If the array must grow, it grows only by an eighth. Arrays of waiting output are usually
    /// short, and every connection would pay for unused memory.
    mutating func appendSparingly(_ bytes: Span<UInt8>) {
        let needed = count + bytes.count
        if capacity < needed { reserveCapacity(needed + Swift.max(needed / 8, 64)) }
        unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
    }
}
