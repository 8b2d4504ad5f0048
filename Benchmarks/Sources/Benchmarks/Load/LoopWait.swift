import Reactor
import Timekeeping

/// Runs a loop until something has happened, never longer than was said.
final class LoopWait {
    private let loop: EventLoop
    private var condition: (() -> Bool)?

    init(on loop: EventLoop) { self.loop = loop }

    /// Says whether the condition, which is asked at each ``check()``, came to hold in time.
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

    /// Whoever changes what is waited for calls this.
    func check() {
        if let condition, condition() { end() }
    }

    private func end() {
        guard condition != nil else { return }
        condition = nil
        loop.stop()
    }
}
