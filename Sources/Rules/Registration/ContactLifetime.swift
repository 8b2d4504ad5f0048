import Timekeeping

/// Computes the requested lifetime of a contact (Expires), the minimum lifetime (Min-Expires) and the granted lifetime.
/// All lifetimes of contacts are whole seconds.
struct ContactLifetime: Sendable {
    private let standard, least, most: UInt32
    /// The minimum lifetime of a contact with push parameters; the lifetime must outlast the wait for the refresh push
    /// (RFC 8599 section 5.6.1.1). A lifetime of an hour or more is never refused as too brief (RFC 3261 section 10.3
    /// step 7).
    private let leastForPush: UInt32

    init(_ settings: RegistrarSettings) {
        standard = Self.seconds(settings.defaultExpiry)
        least = max(1, Self.seconds(settings.minExpiry))
        most = Self.seconds(settings.maxExpiry)
        leastForPush = max(least, min(Self.seconds(settings.refreshPushLead), 3600))
    }

    /// The requested lifetime: the contact's `expires`, or else the header field Expires, or else the default.
    func asked(byContact expires: UInt32?, byRequest header: UInt32?) -> UInt32 { expires ?? header ?? standard }

    /// The minimum lifetime, which a 423 response has in Min-Expires.
    func minimum(isPush: Bool) -> UInt32 { isPush ? leastForPush : least }

    /// Whether a contact with push parameters has a longer minimum lifetime than other contacts.
    var isLongerForPush: Bool { leastForPush > least }

    /// The granted lifetime: the requested lifetime, up to the maximum in the settings.
    func granted(_ asked: UInt32) -> UInt32 { min(asked, most) }

    static func seconds(_ duration: Duration) -> UInt32 { UInt32(clamping: duration.components.seconds) }
}

extension Instant {
    /// Adds seconds without the 128-bit arithmetic of `Duration`, for speed.
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
