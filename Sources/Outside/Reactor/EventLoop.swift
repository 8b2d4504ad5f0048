import CEvent
import Glibc
import Synchronization
package import Timekeeping

/// An event loop: one thread that waits for sockets, timers, signals and posted jobs.
///
/// Only the loop's thread may use objects of the loop, such as sockets and timers; before ``run()``, any thread may. An
/// object that is used on a wrong thread ends the process.
///
/// - The type is `@unchecked Sendable`, because the code checks that only the running thread uses the libevent base.
@safe
@usableFromInline
package final class EventLoop: @unchecked Sendable {
    /// The libevent base, which has no locks.
    let base: OpaquePointer
    private let wakeDescriptor: Descriptor
    private var wakeEvent: OpaquePointer?
    /// The id of the thread that is inside ``run()``; 0 if no thread is inside.
    private let runningThread = Atomic<UInt>(0)
    private let state = Locked(State())
    /// The memory and the timer that all streams of the loop share.
    private(set) lazy var streams = StreamShare()
    /// Divides the loop's time between connections and other work.
    private(set) lazy var connectionTurns = ConnectionTurns(of: self)
    /// The bound sockets that a service manager passed to the process; set before any socket is bound.
    package var handover = SocketHandover()
    /// The maximum number of TLS handshakes that one source may begin per second; `nil` for no limit.
    package var handshakeLimit: HandshakeLimit?
    /// The maximum number of threads for TLS handshakes, which must not change after the first accepted TLS connection.
    package var handshakeThreadLimit = HandshakePool.threadLimit(processors: System.processorCount)
    private var handshakePool: HandshakePool?

    /// A posted job, which the loop runs between callbacks of its events, in the order of arrival. The queue of jobs
    /// has no limit, because an executor may not refuse a job.
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
        // The loop looks for new events after 256 callbacks or 0.5 ms, so that busy connections and jobs do not delay
        // datagrams.
        var longest = timeval(.microseconds(500))
        unsafe event_config_set_max_dispatch_interval(configuration, &longest, 256, 0)
        wakeDescriptor = try System.wakeDescriptor()
        guard let base = unsafe event_base_new_with_config(configuration) else {
            throw SystemError(call: "event_base", code: errno)
        }
        unsafe self.base = base
        // libevent requires that priorities are set before the first event is created.
        unsafe event_base_priority_init(base, LoopTurn.count)
        // The pointer is unretained, because `deinit` frees the event before the loop's memory.
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

    /// Runs the loop on the calling thread until ``stop()``.
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
        // Runs the jobs that were posted before ``stop()``. Jobs that are posted after ``stop()`` wait until the event
        // loop runs again.
        runJobs()
        runningThread.store(0, ordering: .releasing)
        state.withLock { state in
            state.isRunning = false
            state.isStopping = false
        }
    }

    /// Runs the loop on a new thread, whose name `top -H` shows; ``join()`` waits for its end. If `givesWay` is true,
    /// the kernel prefers other threads when processors are busy.
    package func start(
        name: String = "loop", givesWay: Bool = false, ended: @escaping @Sendable () -> Void = {}
    ) throws(SystemError) {
        // If a thread with the nice value 5 and a thread with the nice value 0 share a processor, the thread with 5
        // gets a quarter of the time.
        try start(name: name, niceness: givesWay ? 5 : 0, ended: ended)
    }

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

    /// Runs the loop on a new thread, and returns when the thread has ended after ``stop()``.
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

    /// Ends ``run()`` after the jobs that were posted earlier. Any thread may call ``stop()``.
    package func stop() {
        state.withLock { $0.isStopping = true }
        post {}
    }

    /// Waits for the end of the thread that ``start(name:givesWay:ended:)`` started. The loop's own thread must not
    /// call ``join()``.
    package func join() {
        precondition(!isCurrent, "a loop cannot wait for itself")
        let thread = state.withLock { state in
            defer { state.thread = nil }
            return state.thread
        }
        if let thread { pthread_join(thread, nil) }
    }

    /// Stops the loop, and waits for its thread unless it is the calling thread.
    func leave() {
        stop()
        guard isCurrent else { return join() }
        let thread = state.withLock { $0.thread.take() }
        if let thread { pthread_detach(thread) }
    }

    /// Asks the kernel to let the loop's thread interrupt other threads as soon as the loop has work. The loop's thread
    /// then starts earlier, but gets no additional processor time.
    package func goFirst() { post { System.shortenThreadTurns() } }

    // MARK: Jobs

    /// Runs the job on the loop's thread, after jobs that were posted earlier. Any thread may call ``post(_:)``.
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

    /// Runs a job that frees C memory of the loop. The job runs immediately if the loop is not running or the caller is
    /// on its thread, and otherwise on the loop.
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

    /// The threads that perform handshakes of accepted connections, of which the first starts when first needed.
    func handshakes() throws(SystemError) -> HandshakePool {
        checkThread()
        if let handshakePool { return handshakePool }
        let made = try HandshakePool(threadLimit: handshakeThreadLimit)
        handshakePool = made
        return made
    }

    // MARK: Thread and time

    /// Whether the current thread is the loop's thread.
    package var isCurrent: Bool { runningThread.load(ordering: .acquiring) == System.currentThread }

    package var isRunning: Bool { runningThread.load(ordering: .acquiring) != 0 }

    /// Ends the process if the current thread may not use objects of the loop. While the loop runs, only its own thread
    /// may use its objects.
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
    // The thread's name is cut, because the kernel refuses thread names of more than 15 characters.
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
