import CEvent
import Glibc
package import Timekeeping

/// The system's clocks; no other code of the daemon reads the clocks.
package enum SystemClock {
    /// The monotonic time, which continues while the machine sleeps.
    package static var now: Instant {
        let (seconds, nanoseconds) = read(CLOCK_BOOTTIME)
        return Instant(nanoseconds: seconds &* 1_000_000_000 &+ nanoseconds)
    }

    /// The monotonic time and the date, read together.
    package static var moment: Moment {
        let (seconds, nanoseconds) = read(CLOCK_REALTIME)
        return Moment(instant: now, date: UnixTime(milliseconds: seconds &* 1000 &+ nanoseconds / 1_000_000))
    }

    /// The date in microseconds since 1970.
    package static var microseconds: Int64 {
        let (seconds, nanoseconds) = read(CLOCK_REALTIME)
        return seconds &* 1_000_000 &+ nanoseconds / 1000
    }

    /// The date in nanoseconds since 1970 at which the monotonic time was zero. The value varies by less than a
    /// microsecond, because the two clocks are read one after the other.
    package static var unixStart: Int64 {
        let (seconds, nanoseconds) = read(CLOCK_REALTIME)
        return seconds &* 1_000_000_000 &+ nanoseconds &- now.nanoseconds
    }

    /// The monotonic time in microseconds, as service managers expect it (sd_notify(3), `MONOTONIC_USEC`).
    package static var monotonicMicroseconds: Int64 {
        let (seconds, nanoseconds) = read(CLOCK_MONOTONIC)
        return seconds &* 1_000_000 &+ nanoseconds / 1000
    }

    private static func read(_ clock: Int32) -> (seconds: Int64, nanoseconds: Int64) {
        var value = timespec()
        // `clock_gettime` cannot fail, because all kernels on which Swift runs have both clocks.
        unsafe clock_gettime(clock, &value)
        return (Int64(value.tv_sec), Int64(value.tv_nsec))
    }
}
