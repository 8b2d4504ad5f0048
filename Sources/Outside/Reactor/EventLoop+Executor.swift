import Timekeeping

/// Makes a loop the executor of the actors that name it in `unownedExecutor`.
///
/// An actor must also store its loop, because the executor reference does not keep the loop alive. Callbacks on the
/// loop's thread enter the actor with `assumeIsolated`. Callbacks that run for each message use
/// ``LoopActor/onLoop(_:)``, which is faster. A closure that is written inside the actor and passed to this module
/// needs neither, because it is called only on the loop's thread.
extension EventLoop: SerialExecutor {
    @usableFromInline package func enqueue(_ job: consuming ExecutorJob) { add(.task(UnownedJob(job))) }

    @usableFromInline package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        unsafe UnownedSerialExecutor(ordinary: self)
    }

    @usableFromInline package func checkIsolated() {
        precondition(isCurrent, "not on the thread of the actor's event loop")
    }

    @usableFromInline package func isIsolatingCurrentContext() -> Bool? { isCurrent }
}

/// An actor that a loop executes.
@usableFromInline
package protocol LoopActor: Actor {
    nonisolated var loop: EventLoop { get }
}

extension LoopActor {
    /// Runs a closure that is isolated to the actor, like `assumeIsolated(_:)` but faster. Before each closure,
    /// `assumeIsolated` asks the runtime for the main actor, which costs a thousand instructions.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Result>(_ body: (isolated Self) -> Result) -> Result {
        loop.checkIsolated()
        return withoutActuallyEscaping(body) { body in
            // The isolation of a closure exists only in its type. At run time, the actor is passed like any other
            // argument.
            unsafe unsafeBitCast(body, to: ((Self) -> Result).self)(self)
        }
    }

    /// Runs a closure that captures no values and gets them as an argument. A closure without captures needs no
    /// allocation, which would cost hundreds of instructions.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Argument, Result>(
        with argument: Argument, _ body: @escaping (isolated Self, Argument) -> Result
    ) -> Result {
        loop.checkIsolated()
        return unsafe unsafeBitCast(body, to: ((Self, Argument) -> Result).self)(self, argument)
    }
}

extension EventLoop {
    /// Starts a task that stays on the loop, after jobs that were posted before it. Call this function only on the
    /// loop's thread.
    ///
    /// The isolated parameter of `body` keeps the task on the loop. Without an isolated parameter, a closure with a
    /// capture list runs on another thread, even if its type asks for isolation (Swift 6.3).
    package func startTask(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        LoopTask(on: self).assumeIsolated { $0.start(body) }
    }

    /// Suspends a task of this loop for the duration, while the loop does other work.
    package func pause(_ duration: Duration) async throws(SystemError) {
        var timer: LoopTimer?
        // The timer would not fire if it were released before.
        defer { withExtendedLifetime(timer) {} }
        let result: Result<Void, SystemError> = await withCheckedContinuation { waiter in
            do throws(SystemError) {
                timer = try schedule(at: now + duration) { waiter.resume(returning: .success(())) }
            } catch {
                waiter.resume(returning: .failure(error))
            }
        }
        try result.get()
    }
}

/// The actor to which a task on a loop is isolated.
package actor LoopTask {
    private let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    fileprivate init(on loop: EventLoop) { self.loop = loop }

    /// Starts the task inside the actor, so that tasks begin on the loop and in the order in which they were started.
    fileprivate func start(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        Task { await body(self) }
    }
}
