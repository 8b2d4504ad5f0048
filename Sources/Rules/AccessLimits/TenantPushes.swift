package import ProxyPolicy
package import Timekeeping

/// Limits the pushes for calls of each tenant (T41.5).
package struct TenantPushes: Sendable {
    private var limits: [TenantNumber: RateLimit<TenantNumber>] = [:]

    package init() {}

    /// Counts a push of a tenant, if the tenant may send another push now.
    ///
    /// - Parameters:
    ///   - tenant: the tenant of the called user.
    ///   - limit: the maximum number of pushes in a minute; zero for no limit.
    ///   - now: the present time.
    /// - Returns: whether the tenant's limit allows the push.
    package mutating func admit(_ tenant: TenantNumber, limit: Int, now: Instant) -> Bool {
        guard limit > 0 else { return true }
        if limits[tenant]?.limit != limit { limits[tenant] = RateLimit(perMinute: limit) }
        return limits[tenant]?.admit(tenant, now: now) ?? true
    }

    /// Forgets all counts, because the numbers of the tenants have changed.
    package mutating func forgetAll() { limits = [:] }
}
