package import Addressing
package import Bytes
package import ProxyPolicy
package import Registration
package import SIPGrammar
package import Timekeeping

/// Decides who may use the proxy, and how often: by passwords, limits for sources, refusals and overload.
package struct AccessControl {
    package var sources: SourceLimits
    /// Checks passwords.
    package var digest: DigestAuthenticator
    /// Decides which refusals operators are told about.
    package var refusals = Refusals()
    /// Refuses new work under overload.
    package var admission: Admission

    package init(_ settings: ProxySettings, _ functions: DigestFunctions) {
        digest = DigestAuthenticator(settings: settings.digest, functions: functions)
        sources = SourceLimits(settings.limits)
        admission = Admission(limit: settings.limits.queueing)
    }

    /// Checks the digest credentials of a request, as ``DigestAuthenticator`` does. `wait` gets the limits for logins,
    /// and returns the time to wait before the user's password is checked, or `nil` if it is checked now.
    package mutating func check(
        _ request: SIPRequest, as role: DigestAuthenticator.Role, realm: ByteString, owner: ByteString?, on flow: Flow,
        from holder: NonceHolder, users: UserDirectory, now: Instant,
        wait: (_ user: ByteString, _ logins: LoginLimit) -> Duration?
    ) -> DigestAuthenticator.Verdict {
        let logins = sources.logins
        return digest.check(
            request, as: role, realm: realm, owner: owner, on: flow, from: holder, users: users, now: now
        ) { wait($0, logins) }
    }
}
