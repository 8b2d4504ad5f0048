package import Timekeeping

/// Measures how long a ready event waits for its turn: it makes itself ready and measures the time until it is called.
///
/// The kernel reports ready events in the order in which they became ready, and an event that was reported goes behind
/// all others. So the canary waits as long as a connection that just received something.
///
/// - `@unchecked Sendable` because it is used on its loop alone.
package final class LoopCanary: @unchecked Sendable {
    private var watch: FileWatch?
    private var rungAt: Instant?
    private var quietUntil = Instant.distantPast
    private let handler: (Duration, Instant) -> Void

    /// More frequent measurements give no further information.
    private static let pause: Duration = .milliseconds(20)

    /// The handler gets the wait and the time.
    package init(on loop: EventLoop, handler: @escaping (Duration, Instant) -> Void) throws(SystemError) {
        self.handler = handler
        watch = try FileWatch(owning: try System.wakeDescriptor(), on: loop, turn: .connections, until: nil) {
            [weak self] _ in
            self?.called()
        }
        try watch?.watch(for: .read)
    }

    /// Call when something was received. It measures now and then.
    package func ring(now: Instant) {
        guard now >= quietUntil, let watch else { return }
        quietUntil = now + Self.pause
        guard rungAt == nil else { return }
        rungAt = now
        System.wake(watch.descriptor)
    }

    private func called() {
        guard let watch else { return }
        System.clearWake(watch.descriptor)
        guard let then = rungAt else { return }
        rungAt = nil
        let now = SystemClock.now
        handler(now - then, now)
    }
}
