import Bytes
import PushDelivery

/// The push records of one day, domain, app and operating system, which the report of wakes counts together.
struct WakeGroup: Hashable {
    let day: Int64
    let domain: ByteString
    let app: ByteString
    let system: PhoneSystem

    /// Binds the values of the group's row, in the order of ``WakeColumns``.
    func add(_ counts: WakeCounts, to values: inout ParameterList<some SQLParameters>) {
        values.add(day)
        values.add(domain)
        values.add(app)
        values.add(system.rawValue)
        values.add(counts.never)
        values.add(counts.callerGaveUp)
        values.add(counts.endedOtherwise)
        for count in counts.times.counts { values.add(count) }
    }
}

/// Counts rows of the timeline for the report of wakes. Each row has day, domain, app, three steps, the sign of life, the
/// ending, and the User-Agent.
struct WakeCounting {
    private(set) var groups: [WakeGroup: WakeCounts] = [:]
    /// Counts of one group are added to the table together, because consecutive records mostly belong to one group.
    private var present: (group: WakeGroup, counts: WakeCounts)?

    mutating func add(_ row: some StoredRow) {
        guard let outcome = row.wakeOutcome else { return }
        let system = row.withBytes(8) { PhoneSystem(userAgent: $0) }
        if let group = present?.group, group.day == row.integer(0), group.system == system,
            row.holds(group.domain, in: 1), row.holds(group.app, in: 2)
        {
            present?.counts.add(outcome)
            return
        }
        finish()
        var counts = WakeCounts()
        counts.add(outcome)
        present = (
            WakeGroup(day: row.integer(0), domain: row.byteString(1), app: row.byteString(2), system: system), counts
        )
    }

    mutating func finish() {
        if let present { groups[present.group, default: WakeCounts()].merge(present.counts) }
        present = nil
    }
}

/// The columns of the table of days.
enum WakeColumns {
    /// The names of the columns with counts: the outcomes, and then the classes of ``WakeTimes``.
    static let names =
        ["never", "caller_gave_up", "ended_otherwise"] + WakeTimes.bounds.map { "to_\($0)" } + ["longer"]
    /// The key of the note with the number of the last counted record.
    static let countedNote = "wakes-counted"
}
