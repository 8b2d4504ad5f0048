import ProxyRuntime
import Reactor
import Timekeeping

/// Tells the service manager (systemd) when the daemon is ready and when it stops, and sends watchdog messages while
/// the loop works.
///
/// - The class is `@unchecked Sendable`, because only the daemon's loop uses it.
final class ServiceNotices: @unchecked Sendable {
    private let manager: ServiceManager
    private let loop: EventLoop
    private let shard: ProxyShard
    private var timer: LoopTimer?

    /// Creates the sender of notices; `nil` if no service manager started this process.
    init?(to manager: ServiceManager?, on loop: EventLoop, shard: ProxyShard) {
        guard let manager else { return nil }
        self.manager = manager
        self.loop = loop
        self.shard = shard
    }

    /// Tells the service manager that the daemon is ready, and gives it this run's sockets to keep over a restart.
    /// Later, the daemon sends two watchdog messages in each interval that systemd sets.
    func started(listening words: String) throws(SystemError) {
        for socket in loop.handover.opened { manager.keep(socket.descriptor, as: socket.name) }
        for socket in loop.handover.unclaimed where socket.isOwn { manager.drop(socket.name) }
        manager.tell("READY=1", "STATUS=Serving on \(words)")
        guard let interval = manager.watchdogInterval else { return }
        timer = try LoopTimer(on: loop) { [weak self] in self?.lives(every: interval / 2) }
        lives(every: interval / 2)
    }

    /// Sends a watchdog message if the engine answers a test request. The engine is tested, because a running loop does
    /// not prove that the engine serves requests (F13).
    private func lives(every pause: Duration) {
        if shard.assumeIsolated({ $0.answersItself() }) { manager.tell("WATCHDOG=1") }
        timer?.arm(at: loop.now + pause)
    }

    func reloads() { manager.tell("RELOADING=1", "MONOTONIC_USEC=\(SystemClock.monotonicMicroseconds)") }

    func reloaded() { manager.tell("READY=1") }

    func drains(_ calls: Int) { manager.tell("STATUS=Draining, \(calls) calls wait or ring") }

    func stops() { manager.tell("STOPPING=1", "STATUS=Ending") }
}
