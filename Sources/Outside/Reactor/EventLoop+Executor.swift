import Timekeeping

/// Makes a loop the executor of the actors that name it in `unownedExecutor`.
///
/// The actor must also keep a reference to its loop, because the executor reference does not keep the loop alive.
/// Callbacks on the loop's thread enter the actor by `assumeIsolated`, and callbacks for each message by the faster
/// ``LoopActor/onLoop(_:)``.
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

/// An actor whose code runs on the thread of an event loop.
@usableFromInline
package protocol LoopActor: Actor {
    nonisolated var loop: EventLoop { get }
}

extension LoopActor {
    /// Runs a closure that is isolated to the actor, as `assumeIsolated(_:)` does, but a thousand instructions faster.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Result>(_ body: (isolated Self) -> Result) -> Result {
        loop.checkIsolated()
        return withoutActuallyEscaping(body) { body in
            // The cast is safe, because isolation exists only in the closure's type, and the actor is passed as an
            // ordinary argument.
            unsafe unsafeBitCast(body, to: ((Self) -> Result).self)(self)
        }
    }

    /// Runs an isolated closure that captures nothing and gets its values as an argument. A closure that captures
    /// nothing needs no memory allocation.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Argument, Result>(
        with argument: Argument, _ body: @escaping (isolated Self, Argument) -> Result
    ) -> Result {
        loop.checkIsolated()
        return unsafe unsafeBitCast(body, to: ((Self, Argument) -> Result).self)(self, argument)
    }
}

extension EventLoop {
    /// Starts a task that runs only on the loop. The task begins after jobs that were posted to the loop earlier. The
    /// caller must be on the loop's thread.
    ///
    /// The isolated parameter is needed, because a closure with a capture list would otherwise leave the loop's thread
    /// (Swift 6.3).
    package func startTask(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        LoopTask(on: self).assumeIsolated { $0.start(body) }
    }

    /// Suspends a task of the loop for the duration, while the loop does other work.
    package func pause(_ duration: Duration) async throws(SystemError) {
        var timer: LoopTimer?
        // The timer is retained here, because a released timer does not fire.
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

package actor LoopTask {
    private let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    fileprivate init(on loop: EventLoop) { self.loop = loop }

    /// Starts the task inside the actor, so that tasks begin in the order in which they were started.
    fileprivate func start(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        Task { await body(self) }
    }
}
