import Timekeeping

/// Decides when the store's next commit can begin. Under load, a minimum time between commits makes each commit larger;
/// without load, a change is written immediately. A group of changes as large as the last commits is also written
/// immediately (``StoreIntake/Notice/atOnce``).
struct CommitTurns {
    private let interval: Duration
    private let groupSize: Int
    /// The earliest time at which the next commit begins.
    private(set) var next = Instant.distantPast

    init(_ settings: StoreWriterSettings) {
        interval = settings.commitInterval
        groupSize = settings.groupSizeLimit
    }

    /// Notes that a commit begins. The parameter `tickets` is the number of the commit's entries whose results are
    /// awaited.
    mutating func began(for tickets: Int, now: Instant) { next = tickets < groupSize ? .distantPast : now + interval }
}
