import CEvent
import Timekeeping

/// The input and output of a connection without TLS. Output is sent immediately, or all together when the input handler
/// has returned.
///
/// All streams of the loop read into the same memory. A message needs one system call for input and one for output, and
/// an idle connection has no buffer.
///
/// No weak reference to the stream exists, because objects with weak references are slower to retain in Swift.
final class PlainStream {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let descriptor: LoopDescriptor
    private var readable: LoopEvent?
    /// The event that fires when the kernel accepts more output; `nil` while no output waits.
    private var writable: LoopEvent?
    private unowned let connection: StreamConnection
    private let share: StreamShare
    private var isReading = false
    var inputLimit = Int.max
    /// The output that is not completely sent; the kernel has accepted the first `sent` bytes.
    private var waiting: [UInt8] = []
    private var sent = 0
    private var isGathering = false
    var outputMark = 0

    // The time limits of the stream's input and output. For each byte, only its instant is recorded. The timer computes
    // the new deadline when it fires.
    private var inputTimeout: Duration?
    private var outputTimeout: Duration = .zero
    /// When the last byte of input arrived, or when reading was resumed.
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
        // Events are removed before the descriptor is closed, because a new file can get the same descriptor number.
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

    /// Reads once from the socket, and passes the input to the connection. The connection reads its next input only
    /// after other connections were served.
    private func read(for connection: StreamConnection) throws(SystemError) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try System.receive(descriptor.number, into: room) else { return }
        guard count > 0 else { return connection.failed(.peerClosed) }
        if inputTimeout != nil { heard = SystemClock.now }
        connection.received(unsafe Span(_unsafeElements: room).extracting(first: count))
    }

    /// Reads the peer's last input at the end of the connection, and passes it to `body`. Errors in reading the last
    /// input are ignored.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try? System.receive(descriptor.number, into: room), count > 0 else { return }
        body(unsafe Span(_unsafeElements: room).extracting(first: count))
    }

    // MARK: Output

    func duplicateSocket() -> Descriptor? { try? System.duplicate(descriptor.number) }

    var outputCount: Int { waiting.count - sent + (isGathering ? share.gathered.count : 0) }

    /// Collects output until ``endGathering(sending:)``, so that answers to several requests are sent together.
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
