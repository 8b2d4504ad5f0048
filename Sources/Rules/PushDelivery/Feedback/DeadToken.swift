package import Timekeeping

/// A push token that reaches no app any more, so that the daemon has dropped its contact.
package struct DeadToken: Hashable, Sendable {
    /// The source of the report that the token is dead.
    package enum Source: String, Hashable, Sendable {
        /// A provider's answer to a push.
        case provider
        /// Apple's feedback service.
        case feedback
    }

    /// The registered token. An Apple device's token may contain two tokens.
    package let token: PushToken
    /// The time since which the token is dead, as the provider reports it, or else the time of the provider's answer.
    package let since: UnixTime
    /// The time at which the daemon dropped the contact.
    package let recordedAt: UnixTime
    package let source: Source

    package init(token: PushToken, since: UnixTime, recordedAt: UnixTime, source: Source) {
        self.token = token
        self.since = since
        self.recordedAt = recordedAt
        self.source = source
    }
}
