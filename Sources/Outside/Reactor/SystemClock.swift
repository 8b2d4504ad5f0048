import CEvent
import Glibc
package import Timekeeping

/// The one place that reads clocks.
package enum SystemClock {
    /// Time since boot including sleep, so that a suspended machine wakes with its deadlines behind it.
    package static var now: Instant {
        let (seconds, nanoseconds) = read(CLOCK_BOOTTIME)
        return Instant(nanoseconds: seconds &* 1_000_000_000 &+ nanoseconds)
    }

    /// Both clocks, for whoever needs dates as well.
    package static var moment: Moment {
        let (seconds, nanoseconds) = read(CLOCK_REALTIME)
        return Moment(instant: now, date: UnixTime(milliseconds: seconds &* 1000 &+ nanoseconds / 1_000_000))
    }

    /// As service managers count (sd_notify(3), `MONOTONIC_USEC`).
    package static var monotonicMicroseconds: Int64 {
        let (seconds, nanoseconds) = read(CLOCK_MONOTONIC)
        return seconds &* 1_000_000 &+ nanoseconds / 1000
    }

    private static func read(_ clock: Int32) -> (seconds: Int64, nanoseconds: Int64) {
        var value = timespec()
        // Fails only for a clock the kernel does not have; both are older than any kernel Swift runs on.
        unsafe clock_gettime(clock, &value)
        return (Int64(value.tv_sec), Int64(value.tv_nsec))
    }
}
