package import Timekeeping

/// The times T1, T2 and T4 of RFC 3261 section 17.1.1.1, timer C of section 16.6, and the timers that are calculated
/// from them.
///
/// Comments in the module SIPTransactions call the timers A to M. The long timers B, D, F, H, J, L and M are all 64*T1.
package struct TransactionTimers: Sendable {
    /// The times T1, T2 and T4 in nanoseconds. Nanoseconds are stored, because adding a `Duration` to an instant would
    /// need a 128-bit division.
    private let first, cap, linger: Int64
    private var ring: Int64 = 0

    /// Timer C: how long an INVITE can ring after its last provisional response (100 does not count).
    package var ringLimit: Duration {
        get { .nanoseconds(ring) }
        set { ring = (Instant(nanoseconds: 0) + newValue).nanoseconds }
    }

    /// Creates the timers from T1, T2 and T4.
    ///
    /// - Parameters:
    ///   - t1: the estimated round-trip time (T1).
    ///   - t2: the maximum interval between retransmissions of requests other than INVITE, and of responses to INVITE
    ///     (T2).
    ///   - t4: the maximum time for which a message stays in the network (T4).
    package init(t1: Duration = .milliseconds(500), t2: Duration = .seconds(4), t4: Duration = .seconds(5)) {
        let origin = Instant(nanoseconds: 0)
        first = (origin + t1).nanoseconds
        cap = (origin + t2).nanoseconds
        linger = (origin + t4).nanoseconds
        ringLimit = .seconds(190)
        precondition(first > 0 && cap >= first && linger >= 0, "T1 > 0 and T2 >= T1 are assumed by the machines")
    }

    /// The time at which a transaction stops waiting for its peer: `now` plus 64*T1.
    package func patience(from now: Instant) -> Instant {
        now.later(by: first.multipliedReportingOverflow(by: 64).partialValue)
    }

    /// The time at which timer C fires if the timer starts now.
    func ringEnd(from now: Instant) -> Instant { now.later(by: ring) }

    /// The time after which no retransmission can arrive any more: `now` plus T4.
    func quiet(from now: Instant) -> Instant { now.later(by: linger) }

    /// Rounds the end of a transaction that only waits for retransmissions (timers D, I, J, K, L and M) up to a tenth
    /// of a second. Therefore many transactions end at the same time.
    static func shared(_ end: Instant) -> Instant {
        let tenth: Int64 = 100_000_000
        let late = end.nanoseconds % tenth
        return late > 0 ? end.later(by: tenth - late) : end
    }

    /// The time of the next retransmission once the interval has reached its maximum: `now` plus T2.
    func slowest(from now: Instant) -> Instant { now.later(by: cap) }

    /// The time of the next retransmission by timer A: `now` plus T1, doubled `doublings` times without a limit.
    func uncapped(doublings: UInt8, from now: Instant) -> Instant {
        now.later(by: doublings < 20 ? first << doublings : first << 20)
    }

    /// The time of the next retransmission by timer E or G: `now` plus T1, doubled `doublings` times, but at most `now`
    /// plus T2.
    func capped(doublings: UInt8, from now: Instant) -> Instant {
        now.later(by: min(doublings < 20 ? first << doublings : cap, cap))
    }

    /// The earliest time at which RFC 4320 section 4.1 allows a 100 to a request other than INVITE: the client's timer
    /// E has then reached T2.
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
