import Reactor
import Timekeeping

/// Does something a number of times at a steady rate, whatever comes of it: an open loop.
final class Pacer {
    private let loop: EventLoop
    private let rate: Double
    private let count: Int
    private let begin: Instant
    private let action: (Int) -> Void
    private let ended: () -> Void
    private var timer: LoopTimer?
    /// How often it has been done.
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

    /// More at a time would keep the loop from what has come; who is behind goes on at its next turn.
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
