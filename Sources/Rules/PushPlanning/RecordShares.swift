package import Addressing
package import ProxyPolicy
package import Telemetry
package import Timekeeping

/// Limits the number of timeline records that each caller can cause within the time for which records are kept (T32.5).
///
/// If a caller has reached the limit, the daemon writes no further records of the caller's calls. Requests that the
/// daemon refuses immediately have a limit of their own (``Refusals``).
package struct RecordShares {
    /// Counts the records of calls from phones; one phone may cause a sixteenth of all records.
    private var phones: SharedRate<Bool>
    /// Counts the records of calls from callers that trusted peers name.
    private var peers: SharedRate<Bool>
    private var logLimit = LogRateLimit(burst: 1, per: .seconds(60))

    package init(_ settings: ProxySettings) {
        let (whole, age) = (settings.recordsKept, settings.recordsAge)
        phones = SharedRate(settings.share(of: whole, ofOne: whole / 16), in: age, limitsWhole: false)
        peers = SharedRate(settings.share(of: whole), in: age, limitsWhole: false)
    }

    /// Whether the limits allow one more timeline record for the caller's calls; if the limits allow it, the method
    /// counts the record.
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
            "a caller has reached its limit of timeline records, so sippushd explain cannot show further calls of this caller",
            [.suppressed: .number(suppressed), .setting: .text("push.timeline.max-records")])
    }
}
