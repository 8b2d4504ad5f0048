import Bytes
import PushDelivery
import Storage

/// The SQL statements for the report of wakes.
///
/// Timeline records are counted some minutes after they were written, so that counting delays no call. One transaction
/// writes the counts and the last counted record's number, so that each record counts exactly once.
extension Connection {
    /// Counts the pushes about calls in the next records of the timeline, at most `limit` records.
    func countWakes(limit: Int) throws(SQLError) {
        let (counted, last) = (try countedRecord(), try lastRecord())
        try countWakes(after: counted, upTo: min(last, counted + Int64(limit)))
    }

    /// Counts the pushes in all records up to the number `end`, because the records are about to be deleted.
    func countWakes(upTo end: Int64) throws(SQLError) {
        let counted = try countedRecord()
        if counted < end { try countWakes(after: counted, upTo: end) }
    }

    /// Counts the pushes in the records from `start` to `end`. If the last records were deleted, `end` is lower than
    /// `start`, and the numbers above `end` are used again.
    private func countWakes(after start: Int64, upTo end: Int64) throws(SQLError) {
        guard start != end else { return }
        for (group, counts) in try wakes(after: start, upTo: end) { try add(counts, to: group) }
        try writeNote(WakeColumns.countedNote, "\(end)")
    }

    /// The number of timeline records that are not counted yet; a complete report of wakes needs 0.
    func uncountedRecords() throws(SQLError) -> Int64 { try lastRecord() - countedRecord() }

    /// The number of the last record that was counted.
    func countedRecord() throws(SQLError) -> Int64 { try note(WakeColumns.countedNote).flatMap { Int64($0) } ?? 0 }

    private func lastRecord() throws(SQLError) -> Int64 { try integer("SELECT max(id) FROM push_record") ?? 0 }

    /// Notes that the timeline is empty, so that the next record gets the number 1.
    func timelineIsEmpty() throws(SQLError) { try writeNote(WakeColumns.countedNote, "0") }

    private func wakes(after start: Int64, upTo end: Int64) throws(SQLError) -> [WakeGroup: WakeCounts] {
        let rows = try statement(
            fixed: """
                SELECT requested_at / 86400000, push_record.domain, app, ifnull(registered, -1), ifnull(invited, -1),
                ifnull(ended, -1), sign IS NOT NULL, ending, user_agent
                FROM push_record NOT INDEXED LEFT JOIN binding ON binding.id = device
                WHERE push_record.id > ? AND push_record.id <= ? AND kind = 'call' AND code IS NOT NULL
                AND answer IN ('accepted', 'new-token')
                """)
        defer { rows.reset() }
        rows.bind(1, integer: start)
        rows.bind(2, integer: end)
        var counting = WakeCounting()
        while try rows.step() { counting.add(rows) }
        counting.finish()
        return counting.groups
    }

    // MARK: The table of days

    private static let columns = WakeColumns.names

    private static let addition = """
        INSERT INTO wake_day (day, domain, app, system, \(columns.joined(separator: ", ")))
        VALUES (?, ?, ?, ?\(String(repeating: ", ?", count: columns.count)))
        ON CONFLICT (day, domain, app, system) DO UPDATE SET
        \(columns.map { "\($0) = \($0) + excluded.\($0)" }.joined(separator: ", "))
        """

    private func add(_ counts: WakeCounts, to group: WakeGroup) throws(SQLError) {
        let statement = try statement(Self.addition)
        var values = ParameterList(statement)
        group.add(counts, to: &values)
        try statement.run()
    }

    func pruneWakes(beforeDay day: Int64) throws(SQLError) { try run("DELETE FROM wake_day WHERE day < ?", day) }

    private static let sums = columns.map { "sum(\($0))" }.joined(separator: ", ")

    /// Returns one row for each provider, app or system, sorted by name.
    func wakes(_ asked: WakeQuestion) throws(SQLError) -> [WakeRow] {
        // The name of an app is the provider's name, or begins with the provider's name and a slash.
        let name =
            switch asked.by {
            case .provider: "CASE instr(app, '/') WHEN 0 THEN app ELSE substr(app, 1, instr(app, '/') - 1) END"
            case .app: "app"
            case .system: "system"
            }
        let rows = try statement(
            """
            SELECT \(name) AS name, \(Self.sums) FROM wake_day
            WHERE day >= ?1 AND day <= ?2 AND \(DomainList.contains("domain", 3)) GROUP BY name ORDER BY name
            """)
        rows.bind(1, integer: asked.days.lowerBound)
        rows.bind(2, integer: asked.days.upperBound)
        asked.domains.map(DomainList.init).bind(to: rows, at: 3)
        return try values(of: rows) { $0.storedWakes }
    }
}
