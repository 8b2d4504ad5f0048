package import Addressing
package import ProxyPolicy
package import Telemetry
package import Timekeeping

/// Limits the timeline records that each caller may cause, within the time for which a record is kept (T32.5). Beyond
/// its share, a caller's records are left out. If more records exist than are kept, the oldest are deleted. Requests
/// that are refused immediately have separate records (``Refusals``).
package struct RecordShares {
    /// Records of calls from phones. One phone may have a sixteenth of all records.
    private var phones: SharedRate<Bool>
    /// Records of calls from callers that trusted peers name.
    private var peers: SharedRate<Bool>
    private var logLimit = LogRateLimit(burst: 1, per: .seconds(60))

    package init(_ settings: ProxySettings) {
        let (whole, age) = (settings.recordsKept, settings.recordsAge)
        phones = SharedRate(settings.share(of: whole, ofOne: whole / 16), in: age, limitsWhole: false)
        peers = SharedRate(settings.share(of: whole), in: age, limitsWhole: false)
    }

    /// Whether one more record of the caller is kept. A kept record is counted.
    package mutating func admits(from caller: Caller, now: Instant) -> Bool {
        let (number, isTrusted) = (caller.rawValue, caller.isTrusted)
        return isTrusted
            ? peers.admit(true, by: number, isTrusted: true, now: now)
            : phones.admit(true, by: number, isTrusted: false, now: now)
    }

    /// Logs that records are left out, at most once a minute.
    package mutating func tell(_ log: Log, now: Instant) {
        guard let suppressed = logLimit.admit(now: now) else { return }
        log.warning(
            "a caller has had its share of the records, further ones are left out",
            [.suppressed: .number(suppressed), .setting: .text("push.timeline.max-records")])
    }
}
