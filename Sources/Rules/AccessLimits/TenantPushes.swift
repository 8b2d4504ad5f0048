package import ProxyPolicy
package import Timekeeping

/// Limits the pushes for calls of each tenant (T41.5).
package struct TenantPushes: Sendable {
    private var limits: [TenantNumber: RateLimit<TenantNumber>] = [:]

    package init() {}

    /// Counts the pushes for a call, and decides whether the phones of the call get pushes.
    ///
    /// If the limit allows one push, all pushes for the call are sent, even if they exceed the limit. Otherwise a user
    /// with many phones would never be woken.
    ///
    /// - Parameters:
    ///   - count: the number of pushes for the call.
    ///   - tenant: the tenant of the called user.
    ///   - limit: the maximum number of pushes in a minute; zero for no limit.
    ///   - now: the present time.
    /// - Returns: whether the tenant's limit allows the pushes.
    package mutating func admit(_ count: Int, of tenant: TenantNumber, limit: Int, now: Instant) -> Bool {
        guard limit > 0 else { return true }
        if limits[tenant]?.limit != limit { limits[tenant] = RateLimit(perMinute: limit) }
        let isAdmitted = limits[tenant]?.admit(tenant, now: now) ?? true
        for _ in 1..<max(1, count) { _ = limits[tenant]?.admit(tenant, now: now) }
        return isAdmitted
    }

    /// Forgets all counts, because the numbers of the tenants have changed.
    package mutating func forgetAll() { limits = [:] }
}
