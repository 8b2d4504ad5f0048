package import Timekeeping

/// T1, T2 and T4 of RFC 3261 section 17.1.1.1, timer C of section 16.6, and the timers that depend on them.
///
/// The comments at their uses name timers A to M. All the long timers (B, D, F, H, J, L, M) are 64*T1.
package struct TransactionTimers: Sendable {
    /// The times in nanoseconds, because adding a `Duration` to an instant costs a 128-bit division.
    private let first, cap, linger: Int64
    private var ring: Int64 = 0

    /// Timer C: how long an INVITE may ring after its last provisional response other than 100.
    package var ringLimit: Duration {
        get { .nanoseconds(ring) }
        set { ring = (Instant(nanoseconds: 0) + newValue).nanoseconds }
    }

    /// - Parameters:
    ///   - t1: the estimated round-trip time.
    ///   - t2: the longest interval between retransmissions of requests other than INVITE.
    ///   - t4: how long a message may stay in the network.
    package init(t1: Duration = .milliseconds(500), t2: Duration = .seconds(4), t4: Duration = .seconds(5)) {
        let origin = Instant(nanoseconds: 0)
        first = (origin + t1).nanoseconds
        cap = (origin + t2).nanoseconds
        linger = (origin + t4).nanoseconds
        ringLimit = .seconds(190)
        precondition(first > 0 && cap >= first && linger >= 0, "T1 > 0 and T2 >= T1 are assumed by the machines")
    }

    /// `now` plus 64*T1: how long a transaction waits for its peer.
    package func patience(from now: Instant) -> Instant {
        now.later(by: first.multipliedReportingOverflow(by: 64).partialValue)
    }

    /// When timer C fires.
    func ringEnd(from now: Instant) -> Instant { now.later(by: ring) }

    /// `now` plus T4: when no late message is in flight any more.
    func quiet(from now: Instant) -> Instant { now.later(by: linger) }

    /// Rounds up the end of a transaction that only waits for late messages (timers D, I, J, K, L and M) to a tenth of
    /// a second. Nobody waits for that end, and many such ends then share one turn of the loop.
    static func shared(_ end: Instant) -> Instant {
        let tenth: Int64 = 100_000_000
        let late = end.nanoseconds % tenth
        return late > 0 ? end.later(by: tenth - late) : end
    }

    /// `now` plus T2.
    func slowest(from now: Instant) -> Instant { now.later(by: cap) }

    /// `now` plus T1 doubled `doublings` times, without a limit (timer A).
    func uncapped(doublings: UInt8, from now: Instant) -> Instant {
        now.later(by: doublings < 20 ? first << doublings : first << 20)
    }

    /// `now` plus T1 doubled `doublings` times, but at most T2 (timers E and G).
    func capped(doublings: UInt8, from now: Instant) -> Instant {
        now.later(by: min(doublings < 20 ? first << doublings : cap, cap))
    }

    /// When a client's timer E reaches T2: the earliest time for a 100 to a non-INVITE request over UDP
    /// (RFC 4320 section 4.1).
    func provisionalAllowed(from arrival: Instant) -> Instant {
        var sum: Int64 = 0
        var interval = first
        while interval < cap {
            sum += interval
            interval <<= 1
        }
        return arrival.later(by: sum)
    }
}

extension Instant {
    fileprivate func later(by nanoseconds: Int64) -> Instant {
        let (sum, overflow) = self.nanoseconds.addingReportingOverflow(nanoseconds)
        return overflow ? .distantFuture : Instant(nanoseconds: sum)
    }
}
