package import Timekeeping

/// A token that reaches no app any more, and whose contact was therefore dropped.
package struct DeadToken: Hashable, Sendable {
    /// Who reported the token as dead.
    package enum Source: String, Hashable, Sendable {
        /// The answer to a push.
        case provider
        /// Apple's feedback service.
        case feedback
    }

    /// The registered token. An Apple device may have two in it.
    package let token: PushToken
    /// Since when it is dead: the provider's time or, if it sent none, the time of its answer.
    package let since: UnixTime
    /// When the contact was dropped.
    package let recordedAt: UnixTime
    package let source: Source

    package init(token: PushToken, since: UnixTime, recordedAt: UnixTime, source: Source) {
        self.token = token
        self.since = since
        self.recordedAt = recordedAt
        self.source = source
    }
}
