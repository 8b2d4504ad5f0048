import Registration

/// Limits of sources, refusals and overload: it decides how often somebody may use the proxy.
struct AccessControl {
    var sources: SourceLimits
    /// Decides which refusals operators are told about.
    var refusals = Refusals()
    /// Refuses new work under overload.
    var admission: Admission
    /// Users that other sources have, and the requests that wait for them.
    var users: UserDesk

    init(_ settings: ProxySettings, _ functions: DigestFunctions) {
        sources = SourceLimits(settings.limits)
        admission = Admission(limit: settings.limits.queueing)
        users = UserDesk(settings, functions: functions)
    }
}
