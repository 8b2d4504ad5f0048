import Registration
import Telemetry
import Timekeeping

/// Which calls have their line at the level `notice`. All others have it at `info`.
package enum CallLogging: String, Hashable, Sendable, CaseIterable {
    /// Calls that failed, within a limit.
    case failed
    /// Each call.
    case all
    /// No call.
    case none
}

/// The limit of lines about failed calls at the level `notice`, for each callee and in all.
///
/// Thousands of failed calls fill no disk, and the lines of one callee do not displace those of another.
struct CallLines {
    private var perCallee = RateLimit<AddressOfRecord>(perMinute: 6, capacity: 1024)
    private var all = LogRateLimit(burst: 20)
    private var ofCallees = 0

    /// - Returns: how many lines were left out before; `nil` when there is to be no line.
    mutating func admit(to callee: AddressOfRecord, now: Instant) -> Int? {
        guard perCallee.wait(for: callee, now: now) == nil else {
            ofCallees &+= 1
            return nil
        }
        guard let suppressed = all.admit(now: now) else { return nil }
        _ = perCallee.admit(callee.compacted(), now: now)
        defer { ofCallees = 0 }
        return suppressed &+ ofCallees
    }
}
