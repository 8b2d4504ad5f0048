import ProxyCore
import PushDelivery
import PushPlanning
import Reactor
import Timekeeping

/// Writes the records of the timeline, and deletes a few old records at a time, so that no commit is slow.
///
/// The timeline writer is used only on its shard's loop.
final class TimelineWriting {
    private let settings: TimelineSettings
    private let writer: StoreWriter
    private let loop: EventLoop
    private var timer: LoopTimer?
    /// The number of records that were written since the last deletion of old records.
    private var added = 0
    /// The number of records that were dropped because too many changes waited.
    private(set) var dropped: UInt64 = 0

    /// When this number of changes waits, new timeline records are dropped. The rest of the writer's queue is reserved
    /// for changes whose result a requester waits for.
    private let queueLimit: Int
    /// Old records are deleted after each group of this number of new records. Each deletion examines twice as many old
    /// records, so that too many records become fewer again.
    private static let batch = 64
    /// The interval at which old records are deleted while few new records are written.
    private static let interval: Duration = .seconds(10)
    private static let intervalBatch = 250

    init(
        _ settings: TimelineSettings, writer: StoreWriter, queueLimit: Int = StoreWriterSettings().queueLimit / 2,
        loop: EventLoop
    ) {
        self.queueLimit = queueLimit
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
        if added >= Self.batch {
            rows.append(pruning(limit: 2 * added))
            added = 0
        }
        if !writer.record(rows) { drop(changes) }
    }

    private func drop(_ changes: [TimelineChange]) { dropped += UInt64(changes.count) }

    private func timerFired() {
        if writer.queueLength < queueLimit {
            _ = writer.record([pruning(limit: Self.intervalBatch)])
        }
        timer?.arm(at: loop.now + Self.interval)
    }

    private func pruning(limit: Int) -> RowChange {
        .pruneTimeline(
            before: loop.moment.date + (.zero - settings.maximumAge), keeping: settings.maximumRecords, limit: limit)
    }
}
