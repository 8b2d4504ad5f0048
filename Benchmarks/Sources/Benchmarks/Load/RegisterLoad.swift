import Addressing
import Reactor
import Timekeeping

/// Sends the REGISTERs of many users as fast as the daemon answers, with a fixed number of unanswered REGISTERs (a
/// closed loop).
final class RegisterLoad {
    let client: RegisterClient
    private let loop: EventLoop
    private let wait: LoopWait
    private var users = 0..<0
    private var cseq = 0
    private var finishedCount = 0

    /// The maximum time without any response, longer than all retransmissions of a REGISTER.
    private static let patience: Duration = .seconds(40)

    init(_ client: RegisterClient, on loop: EventLoop) {
        self.client = client
        self.loop = loop
        wait = LoopWait(on: loop)
    }

    /// Sends one REGISTER for each user, and waits for all responses.
    ///
    /// - Returns: the duration of the whole run.
    func run(_ users: Range<Int>, cseq: Int, window: Int) throws(BenchmarkError) -> Duration {
        self.users = users
        self.cseq = cseq
        finishedCount = 0
        client.forgetCounts()
        client.finished = { [weak self] _, _ in self?.finished() }
        defer { client.finished = { _, _ in } }
        let begin = loop.now
        var end = begin
        for _ in 0..<min(window, users.count) { next() }
        // The time limit applies only to silence of the daemon, because a large load may take long.
        var seen = -1
        while finishedCount < users.count {
            guard seen < finishedCount else { throw BenchmarkError("the daemon does not answer REGISTER any more") }
            seen = finishedCount
            let goal = min(users.count, seen + 50_000)
            _ = try wait.wait(atMost: Self.patience) { [unowned self] in finishedCount >= goal }
        }
        end = loop.now
        guard client.refused == 0, client.unanswered == 0 else {
            throw BenchmarkError("REGISTER: \(client.refused) refused, \(client.unanswered) unanswered")
        }
        return end - begin
    }

    private func next() {
        guard let user = users.popFirst() else { return }
        client.register(user, cseq: cseq)
    }

    private func finished() {
        finishedCount += 1
        next()
        wait.check()
    }
}
