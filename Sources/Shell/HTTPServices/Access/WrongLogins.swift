package import Addressing
import Bytes
import ProxyCore
package import ProxyRuntime
import Reactor
import Registration

/// Limits how often passwords, keys and app tokens can be guessed over HTTP. Each wrong guess counts against the source
/// address, and a wrong password also counts against the user.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
package final class WrongLogins: @unchecked Sendable {
    private let loop: EventLoop
    /// Counts wrong logins until ``count(with:)`` is called. After that, the engine counts them.
    private var limit: LoginLimit
    private var door: ShardDoor?

    init(perSource: Int, perUser: Int, loop: EventLoop) {
        self.loop = loop
        limit = LoginLimit(perSource: perSource, perUser: perUser)
    }

    /// Lets the engine count the later wrong logins over HTTP, together with wrong passwords over SIP.
    package func count(with door: ShardDoor) { self.door = door }

    enum Verdict: Sendable {
        /// The password is right, and belongs to the given user.
        case right(AddressOfRecord)
        case wrong
        /// The password was not checked because of too many wrong passwords; the source must wait for the given time.
        case refused(Duration)
        /// The password cannot be checked, because the source of users does not answer.
        case unavailable
    }

    /// Checks a password, unless the source or the user has reached the limit of wrong passwords.
    func verdict(on attempt: ServiceRouter.LoginAttempt, from source: IPAddress) async -> Verdict {
        guard let door else { return .wrong }
        switch await door.login(attempt.user, in: attempt.domain, attempt.password, from: source) {
        case .right(let user): return .right(user)
        case .wrong: return .wrong
        case .refused(let wait): return .refused(wait)
        case .unavailable, .asking: return .unavailable
        }
    }

    /// Counts the wrong guesses of a source, up to the limit of wrong guesses. With empty `guesses`, the method only
    /// returns whether the source may log in.
    ///
    /// - Returns: the number of checked guesses, and the time that the source must wait if some guesses were not
    ///   checked.
    package func judge(_ guesses: [Bool] = [], from source: IPAddress) async -> (heard: Int, wait: Duration?) {
        guard let door else {
            let attempt = LoginLimit.Attempt(from: source, for: nil)
            return Self.judge(guesses) {
                limit.wait(for: attempt, now: loop.now)
            } failed: {
                limit.failed(attempt, now: loop.now)
            }
        }
        return await door.ask(.everything) { engine, now in
            Self.judge(guesses) {
                engine.loginWait(from: source, for: nil, now: now)
            } failed: {
                engine.loginFailed(from: source, for: nil, now: now)
            }
        }
    }

    private static func judge(
        _ guesses: [Bool], wait: () -> Duration?, failed: () -> Void
    ) -> (heard: Int, wait: Duration?) {
        guard !guesses.isEmpty else { return (0, wait()) }
        for (number, isRight) in guesses.enumerated() {
            if let wait = wait() { return (number, wait) }
            if !isRight { failed() }
        }
        return (guesses.count, nil)
    }
}

extension ServiceProblem {
    package static func tooManyLogins(_ wait: Duration) -> ServiceProblem {
        ServiceProblem(
            429, "too many wrong passwords, keys or tokens", retryAfter: Int(clamping: wait.components.seconds + 1))
    }
}
