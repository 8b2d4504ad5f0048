package import Addressing
package import Registration
import Telemetry
package import Timekeeping

/// Limits the log lines about failed calls at the level `notice`: for each callee, for each caller, and for all calls
/// together.
///
/// Calls to one callee or from one caller cannot use up the log lines of other calls.
package struct CallLines {
    private var perCallee = RateLimit<AddressOfRecord>(perMinute: 6, capacity: 1024)
    private var callers = CallerLines()

    package init() {}

    /// Decides whether the log gets a line about a failed call. The result is the number of lines suppressed before
    /// this line; `nil` if this line is suppressed too.
    package mutating func admit(to callee: AddressOfRecord, from caller: Caller, now: Instant) -> Int? {
        guard perCallee.wait(for: callee, now: now) == nil else {
            callers.omit()
            return nil
        }
        guard let suppressed = callers.admit(caller, now: now) else { return nil }
        _ = perCallee.admit(callee.compacted(), now: now)
        return suppressed
    }
}

/// Limits the log lines that callers cause, for each caller and for all callers together.
package struct CallerLines {
    private var perCaller = RateLimit<Caller>(perMinute: 12, capacity: 1024)
    private var all = LogRateLimit(burst: 20)
    /// The number of lines that were suppressed since the last written line. Lines above the limit for all callers do
    /// not count.
    private var omitted = 0

    package init() {}

    /// Decides whether the log gets a line about the caller. The result is the number of lines suppressed before this
    /// line; `nil` if this line is suppressed too.
    package mutating func admit(_ caller: Caller, now: Instant) -> Int? {
        guard perCaller.wait(for: caller, now: now) == nil else {
            omit()
            return nil
        }
        guard let suppressed = all.admit(now: now) else { return nil }
        _ = perCaller.admit(caller, now: now)
        defer { omitted = 0 }
        return suppressed &+ omitted
    }

    /// Counts a log line that was suppressed by a limit outside ``CallerLines``.
    mutating func omit() { omitted &+= 1 }
}
