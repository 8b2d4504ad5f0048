package import Timekeeping

/// Limits how many log lines of one kind peers can cause. Each interval allows a number of lines. The first line of an
/// interval reports how many lines were suppressed before.
///
/// One limit applies to all peers together, because attackers could fill a table with a limit for each peer.
package struct LogRateLimit: Sendable {
    private let burst: Int
    private let interval: Duration
    private var windowEnd: Instant?
    private var written = 0
    private var suppressed = 0

    package init(burst: Int = 5, per interval: Duration = .seconds(10)) {
        self.burst = burst
        self.interval = interval
    }

    /// Decides whether a log line is written now.
    ///
    /// - Parameter now: the current monotonic time.
    /// - Returns: the number of lines suppressed since the last written line, for ``LogKey/suppressed``; `nil` if the
    ///   line must not be written.
    package mutating func admit(now: Instant) -> Int? {
        if windowEnd.map({ now >= $0 }) ?? true {
            windowEnd = now + interval
            written = 0
        }
        guard written < burst else {
            suppressed &+= 1
            return nil
        }
        written += 1
        defer { suppressed = 0 }
        return suppressed
    }
}
