import CEvent
import Glibc
package import Timekeeping

/// The only place that reads clocks.
package enum SystemClock {
    /// Time since boot including sleep, so that deadlines pass while a machine is suspended.
    package static var now: Instant {
        let (seconds, nanoseconds) = read(CLOCK_BOOTTIME)
        return Instant(nanoseconds: seconds &* 1_000_000_000 &+ nanoseconds)
    }

    /// Both clocks, for callers that need dates as well.
    package static var moment: Moment {
        let (seconds, nanoseconds) = read(CLOCK_REALTIME)
        return Moment(instant: now, date: UnixTime(milliseconds: seconds &* 1000 &+ nanoseconds / 1_000_000))
    }

    /// In the form of service managers (sd_notify(3), `MONOTONIC_USEC`).
    package static var monotonicMicroseconds: Int64 {
        let (seconds, nanoseconds) = read(CLOCK_MONOTONIC)
        return seconds &* 1_000_000 &+ nanoseconds / 1000
    }

    private static func read(_ clock: Int32) -> (seconds: Int64, nanoseconds: Int64) {
        var value = timespec()
        // Fails only for a clock that the kernel does not have; both are older than any kernel on which Swift runs.
        unsafe clock_gettime(clock, &value)
        return (Int64(value.tv_sec), Int64(value.tv_nsec))
    }
}
