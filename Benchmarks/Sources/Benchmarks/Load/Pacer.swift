import Reactor
import Timekeeping

/// Repeats an action at a steady rate, whatever the results (an open loop).
final class Pacer {
    private let loop: EventLoop
    private let rate: Double
    private let count: Int
    private let begin: Instant
    private let action: (Int) -> Void
    private let ended: () -> Void
    private var timer: LoopTimer?
    /// The number of times that the action was performed.
    private(set) var done = 0

    init(
        on loop: EventLoop, rate: Double, count: Int, action: @escaping (Int) -> Void,
        ended: @escaping () -> Void
    ) throws(BenchmarkError) {
        self.loop = loop
        self.rate = rate
        self.count = count
        self.action = action
        self.ended = ended
        begin = loop.now
        do {
            timer = try LoopTimer(on: loop) { [weak self] in self?.turn() }
        } catch {
            throw BenchmarkError("no timer: \(error)")
        }
        timer?.arm(at: begin)
    }

    /// The maximum number of actions in one iteration of the loop, so that the loop also receives messages. A late
    /// pacer continues in the next iteration of the loop.
    private static let burst = 128

    private func turn() {
        let due = min(count, done + Self.burst, 1 + Int((loop.now - begin).seconds * rate))
        while done < due {
            action(done)
            done += 1
        }
        if done < count { timer?.arm(at: begin + .seconds(Double(done) / rate)) } else { ended() }
    }
}
