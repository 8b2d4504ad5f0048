import Timekeeping

/// A loop executes the actors that name it in `unownedExecutor`.
///
/// Such an actor stores its loop, because the executor reference does not keep it alive. On the loop's thread,
/// callbacks enter the actor with `assumeIsolated`, callbacks for each message with ``LoopActor/onLoop(_:)``. Closures
/// written inside the actor and passed to this module's types do not need even that, because they are called only on
/// the loop's thread.
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
    /// Does the same as `assumeIsolated(_:)`, which first asks the runtime for the main actor: that takes a thousand
    /// instructions, several times for each call.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Result>(_ body: (isolated Self) -> Result) -> Result {
        loop.checkIsolated()
        return withoutActuallyEscaping(body) { body in
            // The isolation of a function is only part of its type: the actor is passed like any other argument.
            unsafe unsafeBitCast(body, to: ((Self) -> Result).self)(self)
        }
    }

    /// The same for a body that captures nothing and gets its values as its argument: no heap allocation, which would
    /// cost hundreds of instructions.
    @inlinable @inline(__always)
    package nonisolated func onLoop<Argument, Result>(
        with argument: Argument, _ body: @escaping (isolated Self, Argument) -> Result
    ) -> Result {
        loop.checkIsolated()
        return unsafe unsafeBitCast(body, to: ((Self, Argument) -> Result).self)(self, argument)
    }
}

extension EventLoop {
    /// Starts a task that stays on the loop, after jobs that were posted before it. Only on the loop's thread.
    ///
    /// The parameter keeps it there: a closure without it that has a capture list runs on another thread, even if its
    /// type asks for isolation (Swift 6.3).
    package func startTask(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        LoopTask(on: self).assumeIsolated { $0.start(body) }
    }

    /// Suspends a task of this loop while the loop does other work.
    package func pause(_ duration: Duration) async throws(SystemError) {
        var timer: LoopTimer?
        // Until it has fired.
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

/// The isolation of a task on a loop.
package actor LoopTask {
    private let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    fileprivate init(on loop: EventLoop) { self.loop = loop }

    /// From within the actor, so that the task begins on its executor, and tasks begin in their order.
    fileprivate func start(_ body: @escaping @Sendable (isolated LoopTask) async -> Void) {
        Task { await body(self) }
    }
}
