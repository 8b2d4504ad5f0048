import Addressing
import Bytes
import ProxyCore
import Reactor
import Registration

/// What was guessed wrongly over HTTP and from where: passwords, keys, and the tokens of apps, which count alike.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class WrongLogins: @unchecked Sendable {
    private let loop: EventLoop
    /// Its own count, until it counts with the engine.
    private var limit: LoginLimit
    private var shard: ProxyShard?

    init(perSource: Int, perUser: Int, loop: EventLoop) {
        self.loop = loop
        limit = LoginLimit(perSource: perSource, perUser: perUser)
    }

    /// From now on they are counted together with the wrong passwords of SIP.
    func count(with shard: ProxyShard) { self.shard = shard }

    /// How long whoever asks must wait before anything is looked at; `nil`: not at all.
    func wait(from source: IPAddress, for user: AddressOfRecord? = nil) -> Duration? {
        guard let shard else { return limit.wait(for: .init(from: source, for: user), now: loop.now) }
        return shard.assumeIsolated { shard in
            shard.withEngine { engine, now in engine.loginWait(from: source, for: user, now: now) }
        }
    }

    /// Somebody there has shown a wrong password or key.
    func count(from source: IPAddress, for user: AddressOfRecord? = nil) {
        guard let shard else { return limit.failed(.init(from: source, for: user), now: loop.now) }
        shard.assumeIsolated { shard in
            shard.withEngine { engine, now in engine.loginFailed(from: source, for: user, now: now) }
        }
    }

    /// Somebody there has shown a user's right password.
    func succeeded(from source: IPAddress, for user: AddressOfRecord) {
        guard let shard else { return limit.succeeded(.init(from: source, for: user)) }
        shard.assumeIsolated { shard in
            shard.withEngine { engine, _ in engine.loginSucceeded(from: source, for: user) }
        }
    }
}

extension ServiceProblem {
    static func tooManyLogins(_ wait: Duration) -> ServiceProblem {
        ServiceProblem(
            429, "too many wrong passwords, keys or tokens", retryAfter: Int(clamping: wait.components.seconds + 1))
    }
}
