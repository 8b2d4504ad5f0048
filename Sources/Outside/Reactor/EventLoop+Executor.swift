import Timekeeping

/// A loop executes the actors that name it in `unownedExecutor`.
///
/// Such an actor stores its loop, because the executor reference does not keep the loop alive. Callbacks on the loop's
/// thread enter the actor with `assumeIsolated`. Callbacks for each message enter it with ``LoopActor/onLoop(_:)``,
/// which is faster. A closure that is written inside the actor and passed to this module needs neither, because it is
/// called only on the loop's thread.
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
    /// Does the same as `assumeIsolated(_:)`, but faster. That function first asks the runtime for the main actor,
    /// which costs a thousand instructions, several times for each call.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Result>(_ body: (isolated Self) -> Result) -> Result {
        loop.checkIsolated()
        return withoutActuallyEscaping(body) { body in
            // A function's isolation exists only in its type. At run time the actor is passed like any other argument.
            unsafe unsafeBitCast(body, to: ((Self) -> Result).self)(self)
        }
    }

    /// Does the same for a body that captures nothing and gets its values as an argument. It needs no allocation, which
    /// would cost hundreds of instructions.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Argument, Result>(
        with argument: Argument, _ body: @escaping (isolated Self, Argument) -> Result
    ) -> Result {
        loop.checkIsolated()
        return unsafe unsafeBitCast(body, to: ((Self, Argument) -> Result).self)(self, argument)
    }
}

extension EventLoop {
    /// Starts a task that stays on the loop, after jobs that were posted before it. Call only on the loop's thread.
    ///
    /// The parameter of `body` keeps the task on the loop. Without it, a closure with a capture list runs on another
    /// thread, even if its type asks for isolation (Swift 6.3).
    package func startTask(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        LoopTask(on: self).assumeIsolated { $0.start(body) }
    }

    /// Suspends a task of this loop. The loop does other work meanwhile.
    package func pause(_ duration: Duration) async throws(SystemError) {
        var timer: LoopTimer?
        // The timer must exist until it has fired.
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

    /// Starts the task inside the actor. Thus it begins on the loop, and tasks begin in the order of their starts.
    fileprivate func start(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        Task { await body(self) }
    }
}
