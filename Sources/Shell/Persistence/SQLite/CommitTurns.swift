import Timekeeping

/// When commits may begin. Under load they have their turns, so that each carries more; a change that is alone is written
/// at once, and so are as many as a commit had lately (``StoreIntake/Call/atOnce``).
struct CommitTurns {
    private let interval: Duration
    private let company: Int
    /// When the next commit may begin.
    private(set) var next = Instant.distantPast

    init(_ settings: StoreWriterSettings) {
        interval = settings.commitInterval
        company = settings.companyLimit
    }

    /// A commit begins for which that many have waited.
    mutating func began(for tickets: Int, now: Instant) { next = tickets < company ? .distantPast : now + interval }
}
