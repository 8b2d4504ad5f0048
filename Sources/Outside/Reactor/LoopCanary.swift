package import Timekeeping

/// Measures how long a ready event waits until the loop handles the event. The canary makes its own event ready, and
/// measures the time until the event's handler runs.
///
/// The canary's event waits as long as the event of a connection that has just received bytes.
///
/// - The type is `@unchecked Sendable`, because only its loop uses it.
package final class LoopCanary: @unchecked Sendable {
    private var watch: FileWatch?
    private var rungAt: Instant?
    private var quietUntil = Instant.distantPast
    private let handler: (Duration, Instant) -> Void

    /// The minimum time between two measurements.
    private static let pause: Duration = .milliseconds(20)

    /// Creates a canary, whose handler gets each measured wait and the current time.
    package init(on loop: EventLoop, handler: @escaping (Duration, Instant) -> Void) throws(SystemError) {
        self.handler = handler
        watch = try FileWatch(owning: try System.wakeDescriptor(), on: loop, turn: .connections, until: nil) {
            [weak self] _ in
            self?.called()
        }
        try watch?.watch(for: .read)
    }

    /// Starts a measurement, unless the last measurement was too recent; called when a connection has received bytes.
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
