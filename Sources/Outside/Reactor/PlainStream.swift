import CEvent
import Timekeeping

/// The bytes of a connection without TLS.
///
/// What is sent goes to the kernel at once, or together when the handler of what came has returned; what comes is read
/// into memory that all streams of the loop share. So a message costs one system call on its way in and one on its way
/// out, and a silent connection has no room for bytes.
///
/// The connection that has the stream is the target of its events, so that nothing refers weakly to the stream itself:
/// what is referred to weakly is dear to hold, and it is held several times for each message.
final class PlainStream {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let descriptor: LoopDescriptor
    private var readable: LoopEvent?
    /// There is one while output waits.
    private var writable: LoopEvent?
    private unowned let connection: StreamConnection
    private let share: StreamShare
    private var isReading = false
    var inputLimit = Int.max
    /// What the kernel did not take yet, from `sent` on.
    private var waiting: [UInt8] = []
    private var sent = 0
    private var isGathering = false
    var outputMark = 0

    // What comes or leaves only notes the time: what that means for the deadline is looked at when the deadline comes.
    private var inputTimeout: Duration?
    private var outputTimeout: Duration = .zero
    /// When the last byte came, or reading went on.
    private var heard = Instant.distantPast
    /// When the kernel took the last byte of those that had to wait.
    private var progressed = Instant.distantPast
    private var deadline = Instant.distantFuture
    private var deadlineID = DeadlineID.none

    init(_ connected: consuming Descriptor, of connection: StreamConnection, turn: LoopTurn) throws(SystemError) {
        precondition(StreamShare.turn <= turn, "a watch stands in an earlier turn than its deadline")
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
        // The events end before the descriptor is closed, whose number may be given to another a moment later.
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

    /// Reads once, so that others have their turn, and lends what has come.
    private func read(for connection: StreamConnection) throws(SystemError) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try System.receive(descriptor.number, into: room) else { return }
        guard count > 0 else { return connection.failed(.peerClosed) }
        if inputTimeout != nil { heard = SystemClock.now }
        connection.received(unsafe Span(_unsafeElements: room).extracting(first: count))
    }

    /// Lends what the peer has said last. It is asked for when the connection ends, so how reading ends does not matter.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        let room = unsafe share.room(upTo: inputLimit)
        guard let count = unsafe try? System.receive(descriptor.number, into: room), count > 0 else { return }
        body(unsafe Span(_unsafeElements: room).extracting(first: count))
    }

    // MARK: Output

    func duplicateSocket() -> Descriptor? { try? System.duplicate(descriptor.number) }

    var outputCount: Int { waiting.count - sent + (isGathering ? share.gathered.count : 0) }

    /// From now on what is sent is gathered: answers to requests that came together leave together.
    func gather() {
        guard !share.isGathering else { return }
        share.isGathering = true
        isGathering = true
    }

    /// Sends what was gathered, or forgets it when the connection has ended.
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

    /// Sends on, since the kernel takes some again.
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

    /// What became of the connection when its deadline came; `nil` when nothing did.
    func deadlineReached(now: Instant) -> StreamCloseReason? {
        deadline = .distantFuture
        deadlineID = .none
        if stallEnd <= now { return .outputStalled }
        if idleEnd <= now { return .idle }
        updateDeadline()
        return nil
    }

    /// The kernel has something for the connection, or takes more of what waits.
    func fired(_ cause: Int16, for connection: StreamConnection) {
        do {
            if cause & Int16(EV_WRITE) != 0 { try flush(for: connection) } else { try read(for: connection) }
        } catch {
            connection.failed(.system(error))
        }
    }
}

extension [UInt8] {
    /// Appends the bytes. When memory is lacking it grows by an eighth: what waits in a connection is seldom much, and
    /// counts for each of them.
    mutating func appendSparingly(_ bytes: Span<UInt8>) {
        let needed = count + bytes.count
        if capacity < needed { reserveCapacity(needed + Swift.max(needed / 8, 64)) }
        unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
    }
}
