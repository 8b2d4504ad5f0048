import Reactor
import Timekeeping

/// Runs a loop until a condition is true or a time limit has passed.
final class LoopWait {
    private let loop: EventLoop
    private var condition: (() -> Bool)?

    init(on loop: EventLoop) { self.loop = loop }

    /// Returns whether the condition was true at a ``check()`` in time.
    func wait(atMost bound: Duration, until condition: @escaping () -> Bool) throws(BenchmarkError) -> Bool {
        guard !condition() else { return true }
        self.condition = condition
        do {
            let timer = try loop.schedule(at: loop.now + bound) { [weak self] in self?.end() }
            loop.run()
            withExtendedLifetime(timer) {}
        } catch {
            throw BenchmarkError("no timer: \(error)")
        }
        return condition()
    }

    /// Evaluates the condition; called after each change on which the condition depends.
    func check() {
        if let condition, condition() { end() }
    }

    private func end() {
        guard condition != nil else { return }
        condition = nil
        loop.stop()
    }
}
