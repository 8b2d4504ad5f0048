import Timekeeping

/// The numbers of CSeq, which rise over restarts for each user. Kamailio and OpenSIPS refuse a number that does not
/// rise.
///
/// A number is at least the seconds since 2026. A user sends fewer than one REGISTER a second, so a later run begins
/// above all numbers of an earlier one. A stored ceiling does the same if the clock was set back: no number above the
/// ceiling is sent, and the next run begins above it.
struct CSeqSupply: Sendable {
    /// The highest number that may be sent.
    private(set) var ceiling: UInt32
    private let floor: UInt32
    private var isAsked = false
    private var askedAt = Instant.distantPast

    private static let origin: Int64 = 1_767_225_600
    private static let step: UInt32 = 3600
    /// CSeq ends at 2^31 (RFC 3261 section 8.1.1.5). A wrong clock gives no higher number than this.
    private static let latest: UInt32 = 1 << 30
    private static let patience: Duration = .seconds(10)

    /// - Parameter ceiling: the stored ceiling of the last run; 0 if there is none.
    init(ceiling: UInt32) {
        self.ceiling = min(ceiling, (1 << 31) - (1 << 24))
        floor = self.ceiling + 1
    }

    /// The next number for a user; `nil` if a ceiling must be stored first.
    func number(after last: UInt32, at date: UnixTime) -> UInt32? {
        let number = max(last &+ 1, base(at: date))
        return number <= ceiling ? number : nil
    }

    /// The ceiling that must be stored now; `nil` if the present one lasts.
    mutating func ceilingToStore(now: Moment) -> UInt32? {
        let base = base(at: now.date)
        guard base + Self.step / 2 > ceiling, !isAsked || now.instant - askedAt >= Self.patience else { return nil }
        isAsked = true
        askedAt = now.instant
        return base + Self.step
    }

    mutating func stored(_ ceiling: UInt32) {
        isAsked = false
        self.ceiling = max(self.ceiling, ceiling)
    }

    private func base(at date: UnixTime) -> UInt32 {
        let seconds = min(max(0, date.seconds - Self.origin), Int64(Self.latest))
        return max(floor, UInt32(truncatingIfNeeded: seconds))
    }
}
