import CEvent
import Glibc
import Synchronization
package import Timekeeping

/// One thread that waits for sockets, timers, signals and posted jobs, and the executor of the actors living on it.
///
/// Everything made on a loop (sockets, timers, watches, connections) is used on the loop's thread, or before ``run()``.
/// The exceptions say so: ``post(_:)``, ``stop()`` and the executor's calls may come from anywhere. A call from a
/// wrong thread is a programming error and traps.
///
/// - `@unchecked Sendable` because the libevent base is touched by the running thread alone, which is checked, and all
///   else is behind a lock or atomic.
@safe
@usableFromInline
package final class EventLoop: @unchecked Sendable {
    /// The libevent base; made without locks, since only one thread uses it.
    let base: OpaquePointer
    private let wakeDescriptor: Descriptor
    private var wakeEvent: OpaquePointer?
    /// The thread inside ``run()``, 0 when there is none.
    private let runningThread = Atomic<UInt>(0)
    private let state = Locked(State())
    /// What its streams share.
    private(set) lazy var streams = StreamShare()
    /// How its connections begin and end, and who gives way to them.
    private(set) lazy var connectionTurns = ConnectionTurns(of: self)
    /// Where sockets that are bound on this loop come from, when they were handed over. To be set before any is bound.
    package var handover = SocketHandover()
    /// How many handshakes one source may begin on its connections; `nil` for any number.
    package var handshakeLimit: HandshakeLimit?
    private var handshakeThread: HandshakeThread?

    /// What a loop runs besides the callbacks of its sources, in order of arrival. Only what callers have under way
    /// limits how many there are, because an executor may not refuse a job.
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
        // After that many callbacks new readiness is looked for, so that jobs that post jobs do not starve the sockets; and
        // after that long, so that a datagram does not wait for all connections on which something happens.
        var longest = timeval(.microseconds(500))
        unsafe event_config_set_max_dispatch_interval(configuration, &longest, 256, 0)
        wakeDescriptor = try System.wakeDescriptor()
        guard let base = unsafe event_base_new_with_config(configuration) else {
            throw SystemError(call: "event_base", code: errno)
        }
        unsafe self.base = base
        // Before the first event.
        unsafe event_base_priority_init(base, LoopTurn.count)
        // Unretained: the event is freed in deinit, before the loop's memory goes.
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
        // What was posted before the stop still runs; what comes later waits for the next run.
        runJobs()
        runningThread.store(0, ordering: .releasing)
        state.withLock { state in
            state.isRunning = false
            state.isStopping = false
        }
    }

    /// Runs on a new thread, named so in `top -H`; ``join()`` waits for its end. If it gives way, the other threads go
    /// first when there is no processor for all of them.
    package func start(
        name: String = "loop", givesWay: Bool = false, ended: @escaping @Sendable () -> Void = {}
    ) throws(SystemError) {
        // It still gets a quarter of a processor that others want as well.
        try start(name: name, niceness: givesWay ? 5 : 0, ended: ended)
    }

    /// The same, where the niceness of the system says how much it gives way.
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

    /// Runs the loop on a thread of its own, and returns when that has ended, after ``stop()``. The task that waits
    /// keeps no thread busy.
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

    /// Waits until a thread made by ``start(name:)`` has ended. Not on the loop itself.
    package func join() {
        precondition(!isCurrent, "a loop cannot wait for itself")
        let thread = state.withLock { state in
            defer { state.thread = nil }
            return state.thread
        }
        if let thread { pthread_join(thread, nil) }
    }

    /// Stops, and waits for the end of the thread unless it is the caller's.
    func leave() {
        stop()
        guard isCurrent else { return join() }
        let thread = state.withLock { $0.thread.take() }
        if let thread { pthread_detach(thread) }
    }

    /// Lets the loop's thread interrupt others on its processor as soon as it has something to do. It gets no larger share.
    package func goFirst() { post { System.shortenThreadTurns() } }

    // MARK: Jobs

    /// Runs the job on the loop's thread, after what was posted before it. From any thread.
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

    /// Runs a job that frees C memory which the loop may still look at: at once if that is safe, otherwise on the loop.
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

    /// The thread for the handshakes of its connections. It is there from the first on.
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

    /// Traps unless the caller may touch what lives on this loop: its own thread, or anybody before it runs.
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
    // The kernel takes 15 characters and refuses longer names.
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
