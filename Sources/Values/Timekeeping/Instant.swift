/// A time of the monotonic clock, in nanoseconds, as all timers use it.
///
/// ``Instant`` reads no clock; the current time is passed to functions as `now`. `ContinuousClock.Instant` would have
/// sixteen bytes instead of eight.
@usableFromInline
package struct Instant: Hashable, Comparable, Sendable {
    @usableFromInline package let nanoseconds: Int64

    @inlinable
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    @inlinable
    package static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

    @usableFromInline
    package static func + (instant: Instant, duration: Duration) -> Instant {
        let (sum, overflow) = instant.nanoseconds.addingReportingOverflow(duration.nanoseconds)
        guard overflow else { return Instant(nanoseconds: sum) }
        return duration < .zero ? .distantPast : .distantFuture
    }

    @usableFromInline
    package static func - (left: Instant, right: Instant) -> Duration {
        .nanoseconds(left.nanoseconds.subtractingReportingOverflow(right.nanoseconds).partialValue)
    }

    @inlinable package static var distantFuture: Instant { Instant(nanoseconds: .max) }
    @inlinable package static var distantPast: Instant { Instant(nanoseconds: .min) }
}

/// A time of the wall clock, in milliseconds since 1970 UTC. A ``UnixTime`` is for dates that are stored or sent;
/// timers use ``Instant``.
package struct UnixTime: Hashable, Comparable, Sendable {
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }
    package init(seconds: Int64) { milliseconds = seconds.multipliedReportingOverflow(by: 1000).partialValue }

    /// The time in whole seconds since 1970, rounded down.
    package var seconds: Int64 { milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000 }

    package static func < (left: UnixTime, right: UnixTime) -> Bool { left.milliseconds < right.milliseconds }

    package static func + (time: UnixTime, duration: Duration) -> UnixTime {
        UnixTime(milliseconds: time.milliseconds.addingReportingOverflow(duration.nanoseconds / 1_000_000).partialValue)
    }

    package static func - (left: UnixTime, right: UnixTime) -> Duration {
        .milliseconds(left.milliseconds.subtractingReportingOverflow(right.milliseconds).partialValue)
    }
}

extension Duration {
    /// The duration in whole nanoseconds, rounded towards zero and limited to the range of `Int64`.
    ///
    /// The daemon computes a deadline for every message. The standard property `components` is slow, because it divides
    /// 128-bit numbers several times.
    package var nanoseconds: Int64 {
        let all = attoseconds
        let high = UInt64(truncatingIfNeeded: all.magnitude >> 64)
        guard high < 1_000_000_000 >> 1 else { return all < 0 ? .min : .max }
        let low = UInt64(truncatingIfNeeded: all.magnitude)
        let whole = Int64((1_000_000_000 as UInt64).dividingFullWidth((high, low)).quotient)
        return all < 0 ? -whole : whole
    }
}

/// The time of the monotonic clock and of the wall clock at one moment. The clocks are read once when an event arrives,
/// for all code that handles the event.
package struct Moment: Hashable, Sendable {
    package let instant: Instant
    package let date: UnixTime

    package init(instant: Instant, date: UnixTime) {
        self.instant = instant
        self.date = date
    }
}
