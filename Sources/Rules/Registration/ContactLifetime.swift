import Timekeeping

/// Computes the lifetime of a contact: the lifetime for which a REGISTER asks (Expires), the shortest accepted lifetime
/// (Min-Expires), and the granted lifetime. All lifetimes are whole seconds, the unit of SIP.
struct ContactLifetime: Sendable {
    private let standard, least, most: UInt32
    /// The minimum lifetime of a contact with push parameters, which must not expire before the push that asks for a
    /// refresh (RFC 8599 section 5.6.1.1). A lifetime of an hour or more is never refused as too brief (RFC 3261
    /// section 10.3 step 7).
    private let leastForPush: UInt32

    init(_ settings: RegistrarSettings) {
        standard = Self.seconds(settings.defaultExpiry)
        least = max(1, Self.seconds(settings.minExpiry))
        most = Self.seconds(settings.maxExpiry)
        leastForPush = max(least, min(Self.seconds(settings.refreshPushLead), 3600))
    }

    /// The lifetime for which a REGISTER asks: from the contact's parameter `expires`; if it is missing, from the
    /// header field Expires; if both are missing, the default.
    func asked(byContact expires: UInt32?, byRequest header: UInt32?) -> UInt32 { expires ?? header ?? standard }

    /// The shortest accepted lifetime, which a 423 response has in Min-Expires.
    func minimum(isPush: Bool) -> UInt32 { isPush ? leastForPush : least }

    /// Whether the minimum of a push contact is greater than the minimum of other contacts.
    var isLongerForPush: Bool { leastForPush > least }

    /// The lifetime that a contact gets: the lifetime for which the REGISTER asks, up to the maximum in the settings.
    func granted(_ asked: UInt32) -> UInt32 { min(asked, most) }

    static func seconds(_ duration: Duration) -> UInt32 { UInt32(clamping: duration.components.seconds) }
}

extension Instant {
    /// Adds seconds without the 128-bit arithmetic of `Duration`, because each REGISTER needs the addition.
    func adding(seconds: UInt32) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(Int64(seconds) * 1_000_000_000)
        return overflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    /// The whole seconds until a later instant, rounded up.
    func seconds(until later: Instant) -> Int64 {
        let difference = later.nanoseconds.subtractingReportingOverflow(nanoseconds).partialValue
        return difference <= 0 ? 0 : (difference - 1) / 1_000_000_000 + 1
    }
}
