package import Timekeeping

/// Limits the lines that a peer can cause. Each interval allows a number of lines, and the next line reports how many
/// were suppressed.
///
/// Each kind of line has its own limit. No table exists that a peer could fill.
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

    /// Whether a line may be written now.
    ///
    /// - Parameter now: the monotonic time.
    /// - Returns: `nil` to write nothing, else the number of suppressed lines since the last one, for
    ///   ``LogKey/suppressed``.
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
