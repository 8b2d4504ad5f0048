import Timekeeping

/// Supplies the CSeq numbers of the daemon's REGISTERs. The numbers rise for each user, even over restarts, because
/// Kamailio and OpenSIPS refuse a CSeq number that does not rise.
///
/// A CSeq number is at least the number of seconds since the start of 2026. A user sends fewer than one REGISTER a
/// second, so each run begins above all numbers of earlier runs. The numbers rise even if the clock was set back: each
/// run uses numbers up to a stored ceiling, and begins above the ceiling of the last run.
struct CSeqSupply: Sendable {
    /// The highest permitted CSeq number, which is also in the store.
    private(set) var ceiling: UInt32
    private let floor: UInt32
    private var isAsked = false
    private var askedAt = Instant.distantPast

    private static let origin: Int64 = 1_767_225_600
    private static let step: UInt32 = 3600
    /// The highest CSeq number, even if the clock is wrong. CSeq numbers must be below 2^31 (RFC 3261 section 8.1.1.5).
    private static let latest: UInt32 = 1 << 30
    private static let patience: Duration = .seconds(10)

    /// Creates a supply of numbers above the ceiling of the last run.
    ///
    /// - Parameter ceiling: the stored ceiling of the last run; 0 if no ceiling is stored.
    init(ceiling: UInt32) {
        self.ceiling = min(ceiling, (1 << 31) - (1 << 24))
        floor = self.ceiling + 1
    }

    /// The CSeq number that follows a user's last number; `nil` if a higher ceiling must be stored first.
    func number(after last: UInt32, at date: UnixTime) -> UInt32? {
        let number = max(last &+ 1, base(at: date))
        return number <= ceiling ? number : nil
    }

    /// The new ceiling that must be stored now; `nil` if the present ceiling is high enough, or if a new ceiling is
    /// being stored.
    mutating func ceilingToStore(now: Moment) -> UInt32? {
        let base = base(at: now.date)
        guard base + Self.step / 2 > ceiling, !isAsked || now.instant - askedAt >= Self.patience else { return nil }
        isAsked = true
        askedAt = now.instant
        return base + Self.step
    }

    /// Begins above the numbers that other nodes may have used.
    ///
    /// - Parameter ceiling: the ceiling in the store.
    mutating func rise(above ceiling: UInt32) { self = CSeqSupply(ceiling: max(self.ceiling, ceiling)) }

    mutating func stored(_ ceiling: UInt32) {
        isAsked = false
        self.ceiling = max(self.ceiling, ceiling)
    }

    private func base(at date: UnixTime) -> UInt32 {
        let seconds = min(max(0, date.seconds - Self.origin), Int64(Self.latest))
        return max(floor, UInt32(truncatingIfNeeded: seconds))
    }
}
