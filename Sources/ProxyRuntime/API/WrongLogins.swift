import Addressing
import Reactor
import Registration
import SIPGrammar

/// What was guessed wrongly and from where: passwords, keys, and the tokens of apps, which count alike.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class WrongLogins: @unchecked Sendable {
    private let loop: EventLoop
    private var limit: LoginLimit

    init(perSource: Int, perUser: Int, loop: EventLoop) {
        self.loop = loop
        limit = LoginLimit(perSource: perSource, perUser: perUser)
    }

    /// How long whoever asks must wait before anything is looked at; `nil`: not at all.
    func wait(from source: IPAddress, for user: ByteString? = nil) -> Duration? {
        limit.wait(from: source, for: user, now: loop.now)
    }

    /// One was wrong.
    func count(from source: IPAddress, for user: ByteString? = nil) {
        limit.failed(from: source, for: user, now: loop.now)
    }
}

extension ServiceProblem {
    static func tooManyLogins(_ wait: Duration) -> ServiceProblem {
        ServiceProblem(
            429, "too many wrong passwords, keys or tokens", retryAfter: Int(clamping: wait.components.seconds + 1))
    }
}
