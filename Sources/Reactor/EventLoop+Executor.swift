/// A loop executes the actors that name it in `unownedExecutor`.
///
/// Such an actor stores its loop, because the executor reference does not keep it alive. On the loop's thread, callbacks
/// enter the actor with `assumeIsolated`; closures written inside the actor and given to this module's types need not
/// even that, since they are called on the loop's thread only.
extension EventLoop: SerialExecutor {
    package func enqueue(_ job: consuming ExecutorJob) { add(.task(UnownedJob(job))) }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        unsafe UnownedSerialExecutor(ordinary: self)
    }

    package func checkIsolated() {
        precondition(isCurrent, "not on the thread of the actor's event loop")
    }

    package func isIsolatingCurrentContext() -> Bool? { isCurrent }
}
