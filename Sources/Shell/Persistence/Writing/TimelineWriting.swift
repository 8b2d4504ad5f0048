import ProxyCore
import PushDelivery
import PushPlanning
import Reactor
import Timekeeping

/// Writes the records of the timeline, and deletes only a few old records at a time, so that no commit is slow.
///
/// Only the loop of the shard uses a ``TimelineWriting``.
final class TimelineWriting {
    private let settings: TimelineSettings
    private let writer: StoreWriter
    private let loop: EventLoop
    private var timer: LoopTimer?
    /// The number of records that were written since the last deletion of old records.
    private var added = 0
    /// The number of records that were dropped because too many changes waited.
    private(set) var dropped: UInt64 = 0

    /// The number of waiting changes at which new timeline records begin to be dropped. The rest of the writer's queue
    /// is reserved for changes with a waiting requester.
    private let queueLimit: Int
    /// The number of new records after which old records are deleted. Each deletion examines twice as many old records,
    /// so that a surplus of records shrinks.
    private static let batch = 64
    /// The interval at which old records are deleted, even if few new records are written.
    private static let interval: Duration = .seconds(10)
    private static let intervalBatch = 250

    /// The number of records that the report of wakes counts in the next intervals; at first, the records of earlier
    /// runs.
    private var uncounted: Int
    /// The number of records that were written after the last start of counting.
    private var uncountedLater = 0
    private var intervals = 0
    /// The number of intervals between two counts of wakes (ten minutes), so that the counts of many calls are written
    /// together.
    private static let intervalsOfCount = 60
    /// The maximum number of records that are counted in one interval. The maximum keeps each commit short.
    private static let wakesInTurn = 4096
    /// The number of days for which the report of wakes keeps its counts.
    private static let daysOfWakes: Int64 = 400

    init(
        _ settings: TimelineSettings, writer: StoreWriter, queueLimit: Int = StoreWriterSettings().queueLimit / 2,
        uncounted: Int = 0, loop: EventLoop
    ) {
        self.queueLimit = queueLimit
        self.uncounted = uncounted
        self.settings = settings
        self.writer = writer
        self.loop = loop
    }

    /// Starts the regular deletion of old records on the loop.
    func start() throws(SystemError) {
        timer = try LoopTimer(on: loop) { [weak self] in self?.timerFired() }
        timerFired()
    }

    /// Submits changes of the timeline to the writer, or drops them while too many changes wait.
    func write(_ changes: [TimelineChange]) {
        guard writer.queueLength < queueLimit else { return drop(changes) }
        var rows = changes.map(RowChange.timeline)
        added += changes.count
        uncountedLater += changes.count
        if added >= Self.batch {
            rows.append(pruning(limit: 2 * added))
            added = 0
        }
        if !writer.record(rows) { drop(changes) }
    }

    private func drop(_ changes: [TimelineChange]) { dropped += UInt64(changes.count) }

    private func timerFired() {
        if writer.queueLength < queueLimit {
            _ = writer.record([pruning(limit: Self.intervalBatch)] + countsOfWakes())
        }
        timer?.arm(at: loop.now + Self.interval)
    }

    /// The changes that count records for the report of wakes, if counting is due.
    private func countsOfWakes() -> [RowChange] {
        defer { intervals += 1 }
        var changes: [RowChange] = []
        if intervals.isMultiple(of: Self.intervalsOfCount) {
            uncounted += uncountedLater
            uncountedLater = 0
            let today = loop.moment.date.seconds / 86_400
            changes.append(.pruneWakes(beforeDay: today - Self.daysOfWakes + 1))
        }
        guard uncounted > 0 else { return changes }
        uncounted -= min(uncounted, Self.wakesInTurn)
        return changes + [.countWakes(limit: Self.wakesInTurn)]
    }

    private func pruning(limit: Int) -> RowChange {
        .pruneTimeline(
            before: loop.moment.date + (.zero - settings.maximumAge), keeping: settings.maximumRecords, limit: limit)
    }
}
