/// Limits of sources, refusals and overload: it decides how often somebody may use the proxy.
struct AccessControl {
    var sources: SourceLimits
    /// Decides which refusals operators are told about.
    var refusals = Refusals()
    /// Refuses new work under overload.
    var admission: Admission

    init(_ settings: ProxySettings) {
        sources = SourceLimits(settings.limits)
        admission = Admission(limit: settings.limits.queueing)
    }
}
