package import Addressing
package import ProxyPolicy
package import Telemetry
package import Timekeeping

/// Limits how many of the stored timeline records come from one caller (T32.5).
///
/// The calls of a caller who has reached the limit get no further timeline records. Requests that the daemon refuses
/// immediately have their own limit of timeline records (``Refusals``).
package struct TimelineShares {
    /// Counts the timeline records of calls from phones; one phone may cause a sixteenth of all records.
    private var phones: SharedRate<Bool>
    /// Counts the timeline records of calls from callers that trusted peers name.
    private var peers: SharedRate<Bool>
    private var logLimit = LogRateLimit(burst: 1, per: .seconds(60))

    package init(_ settings: ProxySettings) {
        let (whole, age) = (settings.recordsKept, settings.recordsAge)
        phones = SharedRate(settings.share(of: whole, ofOne: whole / 16), in: age, limitsWhole: false)
        peers = SharedRate(settings.share(of: whole), in: age, limitsWhole: false)
    }

    /// Whether the limits allow one more timeline record for the caller's calls; an allowed record is counted.
    package mutating func admits(from caller: Caller, now: Instant) -> Bool {
        let (number, isTrusted) = (caller.rawValue, caller.isTrusted)
        return isTrusted
            ? peers.admit(true, by: number, isTrusted: true, now: now)
            : phones.admit(true, by: number, isTrusted: false, now: now)
    }

    /// Logs that timeline records are omitted, at most once a minute.
    package mutating func tell(_ log: Log, now: Instant) {
        guard let suppressed = logLimit.admit(now: now) else { return }
        log.warning(
            "a caller has reached its limit of timeline records, so the command 'sippushd explain' cannot show further calls of this caller",
            [.suppressed: .number(suppressed), .setting: .text("push.timeline.max-records")])
    }
}
