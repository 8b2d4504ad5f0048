package import Timekeeping

/// A token that reaches no app any more, so that we have dropped its contact.
package struct DeadToken: Hashable, Sendable {
    /// Who said that the token is dead.
    package enum Source: String, Hashable, Sendable {
        /// The answer to a push.
        case provider
        /// Apple's feedback service.
        case feedback
    }

    /// The token as the device registered it. That of an Apple device may hold two.
    package let token: PushToken
    /// Since when it is dead as the provider says or, if it does not say, when we learned of it.
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
