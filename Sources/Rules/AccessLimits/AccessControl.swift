package import Addressing
package import Bytes
package import ProxyPolicy
package import Registration
package import SIPGrammar
package import Timekeeping

/// Passwords, limits of sources, refusals and overload: it decides who may use the proxy, and how often.
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

    /// Checks the digest credentials of a request, as ``DigestAuthenticator`` does. `wait` returns how long to wait before a
    /// password of that user is checked, by the limits of logins that it gets; `nil` if it may be checked now.
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
