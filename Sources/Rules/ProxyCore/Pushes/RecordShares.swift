import Addressing
import Telemetry
import Timekeeping

/// How many records of the timeline callers may have, of those that are kept (T32.5): so many in the time for which one is
/// kept. Beyond it a caller's records are left out. The oldest of all go when there are more than are kept. What is refused at
/// once has records of its own (``Refusals``).
struct RecordShares {
    /// Of calls to users, by phones; one of them has a sixteenth.
    private var phones: SharedRate<Bool>
    /// The same of callers whom trusted peers name.
    private var peers: SharedRate<Bool>
    private var logLimit = LogRateLimit(burst: 1, per: .seconds(60))

    init(_ settings: ProxySettings) {
        let (whole, age) = (settings.recordsKept, settings.recordsAge)
        phones = SharedRate(settings.share(of: whole, ofOne: whole / 16), in: age, limitsWhole: false)
        peers = SharedRate(settings.share(of: whole), in: age, limitsWhole: false)
    }

    /// Whether one more record is kept. If it is, it counts.
    mutating func admits(from caller: Caller, now: Instant) -> Bool {
        let (number, isTrusted) = (caller.rawValue, caller.isTrusted)
        return isTrusted
            ? peers.admit(true, by: number, isTrusted: true, now: now)
            : phones.admit(true, by: number, isTrusted: false, now: now)
    }

    /// Says so, now and then.
    mutating func tell(_ log: Log, now: Instant) {
        guard let suppressed = logLimit.admit(now: now) else { return }
        log.warning(
            "a caller has had its share of the records, further ones are left out",
            [.suppressed: .number(suppressed), .setting: .text("push.timeline.max-records")])
    }
}
