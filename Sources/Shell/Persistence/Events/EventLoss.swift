import Telemetry
import Timekeeping

/// Events that never reach the receiver, and the reason.
package struct EventLoss: Hashable, Sendable {
    package enum Reason: String, Hashable, Sendable, CaseIterable {
        /// The log was full, so the oldest events were dropped.
        case full
        /// One user or one domain had used up its share of the log.
        case share
        /// The events could not be written to the disk, and the buffer in memory was full.
        case disk
        /// A file of the log was damaged.
        case damage
    }

    package let reason: Reason
    package var count: Int
    /// The numbers of the first and the last lost event, if these events had numbers.
    package var range: ClosedRange<UInt64>?

    package init(_ reason: Reason, count: Int, range: ClosedRange<UInt64>? = nil) {
        (self.reason, self.count, self.range) = (reason, count, range)
    }

    /// Adds a further loss with the same reason.
    mutating func add(_ other: EventLoss) {
        count += other.count
        guard let added = other.range else { return }
        let first = min(range?.lowerBound ?? added.lowerBound, added.lowerBound)
        range = first...max(range?.upperBound ?? added.upperBound, added.upperBound)
    }
}

/// The losses that no event has reported to the receiver yet.
struct EventLosses {
    private var untold: [EventLoss.Reason: EventLoss] = [:]
    private var toldAt = Instant.distantPast
    private var lossLog = LogRateLimit(burst: 1, per: .seconds(60))

    private static let pause: Duration = .seconds(10)

    /// Counts lost events, and logs the loss with its cure. Without the parameter `now`, the caller must log the loss.
    mutating func note(_ loss: EventLoss, in folder: String, _ log: Log, now: Instant?) {
        untold[loss.reason, default: EventLoss(loss.reason, count: 0)].add(loss)
        guard let now, let suppressed = lossLog.admit(now: now) else { return }
        let fields: KeyValuePairs<LogKey, LogValue> = [
            .path: .text(folder), .count: .number(loss.count), .suppressed: .number(suppressed),
        ]
        switch loss.reason {
        case .full:
            log.error(
                "the event log is full, so the oldest events are dropped: repair the receiver, or raise the setting 'events.max-size'",
                fields)
        case .share:
            log.error(
                "the events of one user or domain fill their share of the event log, so further events of this user or domain are dropped: repair the receiver, or raise the setting 'events.max-size'",
                fields)
        case .disk, .damage:
            log.error("events are dropped, because they cannot be written to the disk: free space on the disk", fields)
        }
    }

    /// Counts a loss again, because the event that should have told the receiver of the loss was itself dropped.
    mutating func takeBack(_ loss: EventLoss) {
        untold[loss.reason, default: EventLoss(loss.reason, count: 0)].add(loss)
    }

    /// The losses to report to the receiver now; the result is empty if ten seconds have not passed since the last
    /// report.
    mutating func takeUntold(now: Instant) -> [EventLoss] {
        guard !untold.isEmpty, now >= toldAt + Self.pause else { return [] }
        toldAt = now
        defer { untold = [:] }
        return untold.values.sorted { $0.reason.rawValue < $1.reason.rawValue }
    }
}

extension EventLoss.Reason {
    var counter: Counter {
        switch self {
        case .full: .eventDroppedFull
        case .share: .eventDroppedShare
        case .disk: .eventDroppedDisk
        case .damage: .eventDroppedDamage
        }
    }
}
