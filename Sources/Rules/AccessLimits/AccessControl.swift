package import Bytes
package import ProxyPolicy
package import Registration
package import Routing
import SIPGrammar
package import Telemetry
package import Timekeeping

/// Decides who may use the proxy and how often. The decision depends on passwords, limits of sources, and the load.
package struct AccessControl {
    package var sources: SourceLimits
    package var digest: DigestAuthenticator
    package var bearer: BearerAuthenticator
    /// The rate limit of log lines about keys for bearer tokens.
    package var keyLines = LogRateLimit()
    /// The rate limit of log lines about counts that the other nodes of the cluster do not learn.
    package var countLines = LogRateLimit()
    /// The limits on log lines and timeline records about refused requests.
    package var refusals = Refusals()
    /// Refuses new calls and registrations while the daemon is overloaded.
    package var admission: Admission
    /// The users from databases and HTTP servers outside the store, and the SIP requests that wait for an answer of a
    /// database or HTTP server.
    package var users: UserDesk
    /// Limits the pushes of tenants.
    package var tenantPushes = TenantPushes()

    package init(_ settings: ProxySettings, _ functions: DigestFunctions) {
        digest = DigestAuthenticator(
            settings: settings.digest, functions: functions, elsewhere: settings.users.algorithms)
        digest.realmsChanged(settings.realms, of: settings.domains)
        bearer = BearerAuthenticator(settings.bearer, functions: functions)
        sources = SourceLimits(settings.limits, node: settings.node)
        admission = Admission(limit: settings.limits.queueing)
        users = UserDesk(settings, functions: functions)
    }

    /// Checks the digest credentials of a request, as ``DigestAuthenticator`` does. For a user who is not in the store,
    /// the sources of users (databases or HTTP servers) are queried. The closure `wait` gets the login limits and
    /// returns the delay before the password check; `nil` means no delay. The closures `pushed` and `isKept` decide
    /// which nonces are accepted from an address to which the daemon did not send them.
    package mutating func check(
        _ incoming: IncomingRequest, as role: DigestAuthenticator.Role, home: ByteString, owner: ByteString?,
        from holder: NonceHolder, users stored: UserDirectory, now: Instant,
        wait: (_ user: ByteString, _ logins: LoginLimit) -> Duration?,
        pushed: () -> AddressOfRecord? = { nil }, isKept: (_ nonce: UInt64, _ count: UInt32) -> Bool = { _, _ in false }
    ) -> DigestAuthenticator.Verdict {
        let logins = sources.logins
        let realm = digest.realm(for: home)
        let asker = UserCache.Asker(incoming)
        return digest.check(
            incoming.request, as: role, realm: realm, owner: owner, on: incoming.flow, from: holder, users: stored,
            now: now, wait: { wait($0, logins) },
            find: { name, wish in
                users.cache.find(
                    AddressOfRecord(user: name, host: home), realm: realm.text, for: asker,
                    incoming.hasWaited ? .last : wish, now: now)
            }, pushed: pushed, isKept: isKept)
    }
}
