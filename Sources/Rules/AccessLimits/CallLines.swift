package import Addressing
package import Registration
import Telemetry
package import Timekeeping

/// The limit of lines about failed calls at the level `notice`: for each callee, for each caller, and in all.
///
/// Neither the calls to one user nor those of one caller use up the lines of others.
package struct CallLines {
    private var perCallee = RateLimit<AddressOfRecord>(perMinute: 6, capacity: 1024)
    private var callers = CallerLines()

    package init() {}

    /// - Returns: how many lines were left out before; `nil` when there is to be no line.
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

/// The limit of lines that callers cause: for each caller, and in all. Thousands of calls fill no disk.
package struct CallerLines {
    private var perCaller = RateLimit<Caller>(perMinute: 12, capacity: 1024)
    private var all = LogRateLimit(burst: 20)
    /// The lines that were left out since the last line, except by the limit of all callers.
    private var omitted = 0

    package init() {}

    /// - Returns: how many lines were left out before; `nil` when there is to be no line.
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

    /// A line is left out for another reason.
    mutating func omit() { omitted &+= 1 }
}
