package import Timekeeping

/// Limits how many log lines peers can cause. Each interval allows a number of lines, and the next written line reports
/// how many were suppressed.
///
/// Each kind of line has a limit of its own. There is no limit for each peer, because that would need a table that
/// peers could fill.
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

    /// Decides whether a line may be written now.
    ///
    /// - Parameter now: the current monotonic time.
    /// - Returns: `nil` if the line must not be written; otherwise the number of lines that were suppressed since the
    ///   last written line, for ``LogKey/suppressed``.
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
