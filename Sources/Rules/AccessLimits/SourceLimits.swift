package import ProxyPolicy
package import Registration
package import Timekeeping

/// The limits for the logins and REGISTERs of each source (T8, T17.6).
package struct SourceLimits {
    package var logins: LoginLimit
    package var registers: RegisterLimit
    /// The wrong passwords that the other nodes of the cluster do not know yet; `nil` without a cluster.
    private var untold: UntoldCounts?

    package init(_ limits: LimitSettings, node: OwnNode? = nil) {
        logins = LoginLimit(
            perSource: limits.wrongLoginsPerSource, perUser: limits.wrongLoginsPerUser, secret: node?.secret)
        registers = RegisterLimit(limits)
        untold = node == nil ? nil : UntoldCounts()
    }

    /// Counts an attempt with a wrong password.
    package mutating func failed(_ attempt: LoginLimit.Attempt, now: Instant) {
        logins.failed(attempt, now: now, untold: &untold)
    }

    /// Takes the counts for the other nodes: see ``UntoldCounts/take(now:)``.
    package mutating func takeCounts(now: Instant) -> (counts: [SharedCount], dropped: Int) {
        untold?.take(now: now) ?? ([], 0)
    }
}
