package import Bytes
package import Timekeeping

/// A push token whose app is gone, and whose contact the daemon has removed.
package struct DeadToken: Hashable, Sendable {
    /// Who reported that the token is dead.
    package enum Source: String, Hashable, Sendable {
        /// A provider reported the token as dead in its answer to a push.
        case provider
        /// Apple's feedback service has listed the token.
        case feedback
    }

    /// The token as the device registered it. An Apple device can register two tokens in one `pn-prid`.
    package let token: PushToken
    /// The time since which the token is dead. Without a time from the provider, the time of the provider's answer is
    /// used.
    package let since: UnixTime
    /// The time at which the daemon removed the contact of the dead token.
    package let recordedAt: UnixTime
    package let source: Source
    /// The domain of the removed contact's user; empty if an earlier version of the daemon stored the dead token.
    package let domain: ByteString

    package init(token: PushToken, since: UnixTime, recordedAt: UnixTime, source: Source, domain: ByteString) {
        self.token = token
        self.since = since
        self.recordedAt = recordedAt
        self.source = source
        self.domain = domain
    }
}
