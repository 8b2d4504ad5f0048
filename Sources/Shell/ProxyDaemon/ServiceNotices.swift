import ProxyRuntime
import Reactor
import Timekeeping

/// What the service manager hears of the daemon: when it serves, when it ends, and that its loop turns.
///
/// - `@unchecked Sendable` because it lives on the daemon's loop and is used there alone.
final class ServiceNotices: @unchecked Sendable {
    private let manager: ServiceManager
    private let loop: EventLoop
    private let shard: ProxyShard
    private var timer: LoopTimer?

    /// `nil` when nobody manages this process.
    init?(to manager: ServiceManager?, on loop: EventLoop, shard: ProxyShard) {
        guard let manager else { return nil }
        self.manager = manager
        self.loop = loop
        self.shard = shard
    }

    /// The daemon serves. From now on the manager hears twice in each interval that it does, and keeps the sockets that
    /// this run has opened for the next.
    func started(listening words: String) throws(SystemError) {
        for socket in loop.handover.opened { manager.keep(socket.descriptor, as: socket.name) }
        for socket in loop.handover.unclaimed where socket.isOwn { manager.drop(socket.name) }
        manager.tell("READY=1", "STATUS=Serving on \(words)")
        guard let interval = manager.watchdogInterval else { return }
        timer = try LoopTimer(on: loop) { [weak self] in self?.lives(every: interval / 2) }
        lives(every: interval / 2)
    }

    /// A daemon that turns but does not serve is as good as dead: so it says that it lives when a request has come through
    /// the reader and the engine, and not because it is time (F13).
    private func lives(every pause: Duration) {
        if shard.assumeIsolated({ $0.answersItself() }) { manager.tell("WATCHDOG=1") }
        timer?.arm(at: loop.now + pause)
    }

    func reloads() { manager.tell("RELOADING=1", "MONOTONIC_USEC=\(SystemClock.monotonicMicroseconds)") }

    func reloaded() { manager.tell("READY=1") }

    func drains(_ calls: Int) { manager.tell("STATUS=Draining, \(calls) calls wait or ring") }

    func stops() { manager.tell("STOPPING=1", "STATUS=Ending") }
}
