package import Timekeeping

/// A token that reaches no app any more. Its contact was dropped for that.
package struct DeadToken: Hashable, Sendable {
    /// Who reported the token as dead.
    package enum Source: String, Hashable, Sendable {
        /// The answer to a push.
        case provider
        /// Apple's feedback service.
        case feedback
    }

    /// The registered token. An Apple device's token may contain two.
    package let token: PushToken
    /// Since when the token is dead: the provider's time, or else the time of its answer.
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
