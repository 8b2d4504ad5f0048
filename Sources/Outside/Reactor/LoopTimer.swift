import CEvent
package import Timekeeping

/// A timer of an event loop. After each ``arm(at:)``, the timer fires once, never before the deadline.
///
/// A released timer does not fire.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class LoopTimer: @unchecked Sendable {
    /// The priority of the timer among events that are ready at the same time.
    let turn: LoopTurn
    private let event: LoopEvent
    private let handler: () -> Void
    private(set) package var deadline: Instant?

    /// The longest time that libevent waits for a timer before the clock is checked again. The wait is limited, because
    /// libevent's clock stops while the machine sleeps, but the clock of ``Instant`` continues. A deadline that passes
    /// while the machine sleeps is noticed at most 30 seconds after the sleep.
    private static let longestWait: Duration = .seconds(30)

    package init(on loop: EventLoop, turn: LoopTurn = .usual, handler: @escaping () -> Void) throws(SystemError) {
        self.turn = turn
        event = try LoopEvent(loop: loop, number: -1, flags: 0, turn: turn)
        self.handler = handler
        event.setTarget(self)
    }

    /// Sets the deadline, in place of an earlier deadline.
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
        // The system's clock is asked, because libevent's coarse clock can be some milliseconds ahead.
        guard deadline <= SystemClock.now else { return wait() }
        self.deadline = nil
        handler()
    }
}

extension EventLoop {
    /// Runs the job once, at the given instant or later. The release of the returned timer cancels the job.
    package func schedule(at instant: Instant, _ job: @escaping () -> Void) throws(SystemError) -> LoopTimer {
        let timer = try LoopTimer(on: self, handler: job)
        timer.arm(at: instant)
        return timer
    }
}
