/// A point on the monotonic clock, in nanoseconds; the only time a machine knows for its timers.
///
/// Comes from outside as `now`; reads no clock. Eight bytes, against sixteen for `ContinuousClock.Instant`.
@usableFromInline
package struct Instant: Hashable, Comparable, Sendable {
    @usableFromInline package let nanoseconds: Int64

    @inlinable
    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    @inlinable
    package static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

    package static func + (instant: Instant, duration: Duration) -> Instant {
        let (seconds, attoseconds) = duration.components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .distantPast : .distantFuture }
        let (sum, overflowed) = instant.nanoseconds.addingReportingOverflow(scaled)
        guard !overflowed else { return seconds < 0 ? .distantPast : .distantFuture }
        let (total, overflowedAgain) = sum.addingReportingOverflow(attoseconds / 1_000_000_000)
        return overflowedAgain ? .distantFuture : Instant(nanoseconds: total)
    }

    package static func - (left: Instant, right: Instant) -> Duration {
        .nanoseconds(left.nanoseconds.subtractingReportingOverflow(right.nanoseconds).partialValue)
    }

    @inlinable package static var distantFuture: Instant { Instant(nanoseconds: .max) }
    @inlinable package static var distantPast: Instant { Instant(nanoseconds: .min) }
}

/// A point on the wall clock, in milliseconds since 1970 UTC; for dates that leave the process, never for timers.
package struct UnixTime: Hashable, Comparable, Sendable {
    package let milliseconds: Int64

    package init(milliseconds: Int64) { self.milliseconds = milliseconds }
    package init(seconds: Int64) { milliseconds = seconds.multipliedReportingOverflow(by: 1000).partialValue }

    /// Whole seconds, rounded down, as every `date` in a payload is written.
    package var seconds: Int64 { milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000 }

    package static func < (left: UnixTime, right: UnixTime) -> Bool { left.milliseconds < right.milliseconds }

    package static func + (time: UnixTime, duration: Duration) -> UnixTime {
        let (seconds, attoseconds) = duration.components
        let added = seconds.multipliedReportingOverflow(by: 1000).partialValue
        let sum = time.milliseconds.addingReportingOverflow(added).partialValue
        return UnixTime(milliseconds: sum.addingReportingOverflow(attoseconds / 1_000_000_000_000_000).partialValue)
    }

    package static func - (left: UnixTime, right: UnixTime) -> Duration {
        .milliseconds(left.milliseconds.subtractingReportingOverflow(right.milliseconds).partialValue)
    }
}

/// One reading of both clocks, taken together at the edge and handed down.
package struct Moment: Hashable, Sendable {
    package let instant: Instant
    package let date: UnixTime

    package init(instant: Instant, date: UnixTime) {
        self.instant = instant
        self.date = date
    }
}
