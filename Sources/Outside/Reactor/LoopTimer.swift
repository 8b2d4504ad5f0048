import CEvent
package import Timekeeping

/// A timer whose deadline can be moved. The timer fires once for each arming, at the deadline or later, but never
/// earlier.
///
/// Releasing the timer disarms it.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class LoopTimer: @unchecked Sendable {
    /// The priority of the timer among events that are ready at the same time.
    let turn: LoopTurn
    private let event: LoopEvent
    private let handler: () -> Void
    private(set) package var deadline: Instant?

    /// The longest time for which libevent waits without a check of the clock. While the machine sleeps, libevent's
    /// clock stops, but an `Instant` continues. With short waits, a deadline that passed during sleep is noticed soon.
    private static let longestWait: Duration = .seconds(30)

    package init(on loop: EventLoop, turn: LoopTurn = .usual, handler: @escaping () -> Void) throws(SystemError) {
        self.turn = turn
        event = try LoopEvent(loop: loop, number: -1, flags: 0, turn: turn)
        self.handler = handler
        event.setTarget(self)
    }

    /// Sets or moves the deadline.
    package func arm(at deadline: Instant) {
        guard deadline != self.deadline else { return }
        self.deadline = deadline
        wait()
    }

    package func disarm() {
        guard deadline != nil else { return }
        deadline = nil
        event.remove()
    }

    private func wait() {
        guard let deadline else { return }
        let now = SystemClock.now
        event.add(timeout: deadline <= now ? .zero : min(deadline - now, Self.longestWait))
    }
}

extension LoopTimer: LoopEventTarget {
    func fired(_ cause: Int16) {
        guard let deadline else { return }
        // libevent's clock is coarse, and can be some milliseconds ahead of the clock that deadlines use.
        guard deadline <= SystemClock.now else { return wait() }
        self.deadline = nil
        handler()
    }
}

extension EventLoop {
    /// Runs the job once, at this instant or later. Releasing the returned timer cancels the job.
    package func schedule(at instant: Instant, _ job: @escaping () -> Void) throws(SystemError) -> LoopTimer {
        let timer = try LoopTimer(on: self, handler: job)
        timer.arm(at: instant)
        return timer
    }
}
