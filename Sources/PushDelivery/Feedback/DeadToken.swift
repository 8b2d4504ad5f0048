package import Timekeeping

/// A token that reaches no app any more, and whose contact we have dropped for it.
package struct DeadToken: Hashable, Sendable {
    /// Who said that the token is dead.
    package enum Source: String, Hashable, Sendable {
        /// The answer to a push.
        case provider
        /// Apple's feedback service.
        case feedback
    }

    /// As the device registered it; of an Apple device it may hold two tokens.
    package let token: PushToken
    /// Since when it is dead by the provider's word; without one, when we learned it.
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
