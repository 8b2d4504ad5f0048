import Timekeeping

/// When commits may begin. Under load commits wait for their turn, so that each one carries more changes. A single
/// change is written immediately; so is a group of changes as large as the last commits (``StoreIntake/Notice/atOnce``).
struct CommitTurns {
    private let interval: Duration
    private let groupSize: Int
    /// The time at which the next commit may begin.
    private(set) var next = Instant.distantPast

    init(_ settings: StoreWriterSettings) {
        interval = settings.commitInterval
        groupSize = settings.groupSizeLimit
    }

    /// A commit begins, for which this many changes waited.
    mutating func began(for tickets: Int, now: Instant) { next = tickets < groupSize ? .distantPast : now + interval }
}
