import CEvent
import Glibc
import Synchronization
package import Timekeeping

/// One thread that waits for sockets, timers, signals and posted jobs, and the executor of the actors on it.
///
/// Everything that is created on a loop (sockets, timers, watches, connections) is used on the loop's thread, or before
/// ``run()``. Exceptions are documented: ``post(_:)``, ``stop()`` and the executor's calls may come from any thread. A
/// call from a wrong thread is a programming error and traps.
///
/// - `@unchecked Sendable` because only the running thread uses the libevent base, which is checked, and everything
///   else is behind a lock or atomic.
@safe
@usableFromInline
package final class EventLoop: @unchecked Sendable {
    /// The libevent base, created without locks, because only one thread uses it.
    let base: OpaquePointer
    private let wakeDescriptor: Descriptor
    private var wakeEvent: OpaquePointer?
    /// The thread inside ``run()``, or 0.
    private let runningThread = Atomic<UInt>(0)
    private let state = Locked(State())
    /// The state that its streams share.
    private(set) lazy var streams = StreamShare()
    /// Schedules the start and the end of its connections, and callbacks that gave way.
    private(set) lazy var connectionTurns = ConnectionTurns(of: self)
    /// Supplies bound sockets that were passed to the process. Set it before any socket is bound.
    package var handover = SocketHandover()
    /// Limits the handshakes that one source may begin; `nil` for no limit.
    package var handshakeLimit: HandshakeLimit?
    private var handshakeThread: HandshakeThread?

    /// The work of a loop besides the callbacks of its sources, in order of arrival. Its length is limited only by the
    /// callers' active operations, because an executor may not refuse a job.
    enum Job {
        case task(UnownedJob)
        case closure(@Sendable () -> Void)
    }

    private struct State {
        var jobs: [Job] = []
        var isWakePending = false
        var isStopping = false
        var isRunning = false
        var thread: pthread_t?
    }

    package init() throws(SystemError) {
        System.ignoreWriteSignals()
        guard let configuration = unsafe event_config_new() else { throw SystemError(call: "event_base", code: ENOMEM) }
        defer { unsafe event_config_free(configuration) }
        unsafe event_config_set_flag(configuration, Int32(EVENT_BASE_FLAG_NOLOCK.rawValue))
        // After this many callbacks the loop checks for new events, so that jobs that post jobs do not starve the
        // sockets. The same happens after this time, so that a datagram does not wait for all busy connections.
        var longest = timeval(.microseconds(500))
        unsafe event_config_set_max_dispatch_interval(configuration, &longest, 256, 0)
        wakeDescriptor = try System.wakeDescriptor()
        guard let base = unsafe event_base_new_with_config(configuration) else {
            throw SystemError(call: "event_base", code: errno)
        }
        unsafe self.base = base
        // Before the first event.
        unsafe event_base_priority_init(base, LoopTurn.count)
        // Unretained: the event is freed in deinit, before the loop's memory.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard
            let event = unsafe event_new(
                base, wakeDescriptor.number, Int16(EV_READ) | Int16(EV_PERSIST), loopWasWoken, context)
        else { throw SystemError(call: "event_new", code: ENOMEM) }
        unsafe event_priority_set(event, LoopTurn.usual.rawValue)
        unsafe wakeEvent = event
        guard unsafe event_add(event, nil) == 0 else { throw SystemError(call: "event_add", code: ENOMEM) }
    }

    deinit {
        if let wakeEvent = unsafe wakeEvent { unsafe event_free(wakeEvent) }
        unsafe event_base_free(base)
    }

    // MARK: Running

    /// Runs on the calling thread until ``stop()``.
    package func run() {
        let claimed = state.withLock { state in
            guard !state.isRunning else { return false }
            state.isRunning = true
            return true
        }
        precondition(claimed, "an event loop runs on one thread only")
        runningThread.store(System.currentThread, ordering: .releasing)
        runJobs()
        while !state.withLock({ $0.isStopping }) {
            unsafe event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY)
        }
        // Jobs posted before the stop still run. Later jobs wait for the next run.
        runJobs()
        runningThread.store(0, ordering: .releasing)
        state.withLock { state in
            state.isRunning = false
            state.isStopping = false
        }
    }

    /// Runs on a new thread with this name in `top -H`; ``join()`` waits for its end. If `givesWay`, the other threads
    /// are scheduled first when processors are scarce.
    package func start(
        name: String = "loop", givesWay: Bool = false, ended: @escaping @Sendable () -> Void = {}
    ) throws(SystemError) {
        // It still gets a quarter of a processor that other threads want as well.
        try start(name: name, niceness: givesWay ? 5 : 0, ended: ended)
    }

    /// The same with an explicit nice value.
    package func start(name: String, niceness: Int32, ended: @escaping @Sendable () -> Void = {}) throws(SystemError) {
        let start = ThreadStart(loop: self, name: name, niceness: niceness, ended: ended)
        let context = unsafe Unmanaged.passRetained(start).toOpaque()
        var thread = pthread_t()
        let code = unsafe pthread_create(&thread, nil, loopThread, context)
        guard code == 0 else {
            unsafe Unmanaged<ThreadStart>.fromOpaque(context).release()
            throw SystemError(call: "pthread_create", code: code)
        }
        let started = thread
        state.withLock { $0.thread = started }
    }

    /// Runs the loop on its own thread, and returns after that has ended, after ``stop()``. The waiting task blocks no
    /// thread.
    package func runOnThread(name: String) async throws(SystemError) {
        goFirst()
        let failure: SystemError? = await withCheckedContinuation { waiter in
            do throws(SystemError) {
                try start(name: name) { waiter.resume(returning: nil) }
            } catch {
                waiter.resume(returning: error)
            }
        }
        if let failure { throw failure }
        join()
    }

    /// Ends ``run()`` after the jobs posted so far. From any thread.
    package func stop() {
        state.withLock { $0.isStopping = true }
        post {}
    }

    /// Waits until a thread started by ``start(name:)`` has ended. Not on the loop itself.
    package func join() {
        precondition(!isCurrent, "a loop cannot wait for itself")
        let thread = state.withLock { state in
            defer { state.thread = nil }
            return state.thread
        }
        if let thread { pthread_join(thread, nil) }
    }

    /// Stops, and waits for the end of the thread unless the caller is on it.
    func leave() {
        stop()
        guard isCurrent else { return join() }
        let thread = state.withLock { $0.thread.take() }
        if let thread { pthread_detach(thread) }
    }

    /// Lets the loop's thread interrupt others on its processor as soon as it has work. It gets no larger share of the
    /// processor.
    package func goFirst() { post { System.shortenThreadTurns() } }

    // MARK: Jobs

    /// Runs the job on the loop's thread, after jobs posted before it. From any thread.
    package func post(_ job: @escaping @Sendable () -> Void) { add(.closure(job)) }

    func add(_ job: Job) {
        let mustWake = state.withLock { state in
            state.jobs.append(job)
            defer { state.isWakePending = true }
            return !state.isWakePending
        }
        guard mustWake else { return }
        if isCurrent, let wakeEvent = unsafe wakeEvent {
            unsafe event_active(wakeEvent, Int32(EV_TIMEOUT), 0)
        } else {
            System.wake(wakeDescriptor.number)
        }
    }

    /// Runs a job that frees C memory which the loop may still use: immediately if that is safe, otherwise on the loop.
    package func dispose(_ job: @escaping @Sendable () -> Void) {
        guard !isCurrent else { return job() }
        let isRunning = state.withLock { $0.isRunning }
        if isRunning { post(job) } else { job() }
    }

    fileprivate func woken(by cause: Int16) {
        if cause & Int16(EV_READ) != 0 { System.clearWake(wakeDescriptor.number) }
        runJobs()
        if state.withLock({ $0.isStopping }) { unsafe event_base_loopbreak(base) }
    }

    private func runJobs() {
        let jobs = state.withLock { state in
            state.isWakePending = false
            return exchange(&state.jobs, with: [])
        }
        for job in jobs {
            switch job {
            case .task(let task): unsafe task.runSynchronously(on: asUnownedSerialExecutor())
            case .closure(let closure): closure()
            }
        }
    }

    // MARK: Handshakes

    /// The thread for the handshakes of its connections. It is started with the first one.
    func handshakes() throws(SystemError) -> HandshakeThread {
        checkThread()
        if let handshakeThread { return handshakeThread }
        let made = try HandshakeThread()
        handshakeThread = made
        return made
    }

    // MARK: Thread and time

    /// Whether the caller is on the loop's thread.
    package var isCurrent: Bool { runningThread.load(ordering: .acquiring) == System.currentThread }

    /// Whether some thread is inside ``run()``.
    package var isRunning: Bool { runningThread.load(ordering: .acquiring) != 0 }

    /// Traps unless the caller may use objects of this loop: on its own thread, or on any thread before it runs.
    package func checkThread() {
        let thread = runningThread.load(ordering: .acquiring)
        precondition(thread == 0 || thread == System.currentThread, "called from outside the event loop's thread")
    }

    package var now: Instant { SystemClock.now }
    package var moment: Moment { SystemClock.moment }
}

private final class ThreadStart {
    let loop: EventLoop
    let name: String
    let niceness: Int32
    let ended: @Sendable () -> Void

    init(loop: EventLoop, name: String, niceness: Int32, ended: @escaping @Sendable () -> Void) {
        self.loop = loop
        self.name = name
        self.niceness = niceness
        self.ended = ended
    }
}

private func loopThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context = unsafe context else { return nil }
    let start = unsafe Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue()
    // The kernel accepts 15 characters and refuses longer names.
    unsafe thread_set_name(pthread_self(), String(start.name.prefix(15)))
    if start.niceness > 0 { System.lowerThreadPriority(to: start.niceness) }
    start.loop.run()
    start.ended()
    return nil
}

private func loopWasWoken(_ descriptor: Int32, _ cause: Int16, _ context: UnsafeMutableRawPointer?) {
    guard let context = unsafe context else { return }
    unsafe Unmanaged<EventLoop>.fromOpaque(context).takeUnretainedValue().woken(by: cause)
}
