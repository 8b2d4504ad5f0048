import Registration

/// Passwords, limits and refusals: it decides who may use the proxy, and how often.
///
/// It is a class, because `digest` reads the limits in `sources` while it checks a password. In a structure, that access
/// would be a conflict, and the process would end.
final class AccessControl {
    var digest: DigestAuthenticator
    var sources: SourceLimits
    /// Decides which refusals operators are told about.
    var refusals = Refusals()
    /// Refuses new work under overload.
    var admission: Admission

    init(_ settings: ProxySettings, _ functions: DigestFunctions) {
        digest = DigestAuthenticator(settings: settings.digest, functions: functions)
        sources = SourceLimits(settings.limits)
        admission = Admission(limit: settings.limits.queueing)
    }
}
