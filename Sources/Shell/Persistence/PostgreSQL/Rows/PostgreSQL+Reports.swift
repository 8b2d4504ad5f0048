import Bytes
import Collections
import PostgreSQLClient
import PushDelivery

/// The SQL statements for the report of wakes, and for push statistics.
extension PostgreSQLTables {
    /// Counts the pushes about calls in the next records of the timeline, at most `limit` records.
    func countWakes(limit: Int) throws(PostgreSQLError) {
        let counted = try countedRecord()
        let next = try rows(
            "SELECT max(id) FROM (SELECT id FROM push_record WHERE id > $1 ORDER BY id LIMIT $2) AS next", counted,
            limit
        )
        try countWakes(after: counted, upTo: next.number)
    }

    /// Counts the pushes in all records up to the number `end`, because the records are about to be deleted.
    func countWakes(upTo end: Int64) throws(PostgreSQLError) { try countWakes(after: try countedRecord(), upTo: end) }

    /// Counts the pushes in the records from `start` to `end`. The numbers of deleted records are not used again.
    private func countWakes(after start: Int64, upTo end: Int64) throws(PostgreSQLError) {
        guard start < end else { return }
        let rows = try rows(
            """
            SELECT requested_at / 86400000, push_record.domain, app, coalesce(registered, -1), coalesce(invited, -1),
            coalesce(ended, -1), (sign IS NOT NULL)::int::bigint, ending, user_agent
            FROM push_record LEFT JOIN binding ON binding.id = device
            WHERE push_record.id > $1 AND push_record.id <= $2 AND kind = 'call' AND code IS NOT NULL
            AND answer IN ('accepted', 'new-token') ORDER BY push_record.id
            """, start, end)
        var counting = WakeCounting()
        for index in 0..<rows.count { counting.add(rows[index]) }
        counting.finish()
        for (group, counts) in counting.groups {
            var values = ParameterList(connection.parameters)
            group.add(counts, to: &values)
            try connection.send(text: Self.addition)
        }
        try writeNote(WakeColumns.countedNote, "\(end)")
    }

    private func countedRecord() throws(PostgreSQLError) -> Int64 {
        try storedNote(WakeColumns.countedNote).flatMap { Int64($0) } ?? 0
    }

    func uncountedRecords() throws -> Int64 {
        try rows("SELECT count(*) FROM push_record WHERE id > $1", try countedRecord()).number
    }

    private static let addition = """
        INSERT INTO wake_day (day, domain, app, system, \(WakeColumns.names.joined(separator: ", ")))
        VALUES (\((1...WakeColumns.names.count + 4).map { "$\($0)" }.joined(separator: ", ")))
        ON CONFLICT (day, domain, app, system) DO UPDATE SET
        \(WakeColumns.names.map { "\($0) = wake_day.\($0) + excluded.\($0)" }.joined(separator: ", "))
        """

    func pruneWakes(beforeDay day: Int64) throws(PostgreSQLError) {
        try send("DELETE FROM wake_day WHERE day < $1", day)
    }

    func wakes(_ asked: WakeQuestion) throws -> [WakeRow] {
        // The name of an app is the provider's name, or begins with the provider's name and a slash.
        let name =
            switch asked.by {
            case .provider: "split_part(app, '/', 1)"
            case .app: "app"
            case .system: "system"
            }
        let sums = WakeColumns.names.map { "sum(\($0))::bigint" }.joined(separator: ", ")
        return try rows(
            """
            SELECT \(name) AS name, \(sums) FROM wake_day
            WHERE day >= $1 AND day <= $2 AND \(DomainArray.contains("domain", 3)) GROUP BY name ORDER BY name
            """, asked.days.lowerBound, asked.days.upperBound, asked.domains.map(DomainArray.init)
        ).values { $0.storedWakes }
    }

    // MARK: Statistics

    /// The SQL expressions that compute the statistics. For calls, SIP proves two values: a phone that registered has
    /// received the push, and a phone that answered has followed the push.
    private static let figures = """
        count(*), count(*) FILTER (WHERE tries > 0), count(*) FILTER (WHERE answer IN ('accepted', 'new-token')),
        count(*) FILTER (WHERE delivery = 'finished' AND coalesce(answer NOT IN ('accepted', 'new-token'), true)),
        count(*) FILTER (WHERE received IS NOT NULL OR (tries > 0 AND registered IS NOT NULL)),
        count(*) FILTER (WHERE followed IS NOT NULL OR (tries > 0 AND coalesce(ending = 'answered', false))),
        count(*) FILTER (WHERE read > 0)
        """

    /// The SQL condition that selects the apps and the domains of the query.
    private static func selected(_ table: String) -> String {
        "($3 = '' OR \(table).app = $3) AND \(DomainArray.contains("\(table).domain", 4))"
    }

    func statistics(_ asked: StatisticsQuestion) throws -> Page<StatisticsRow> {
        let condition = """
            push_record.code IS NOT NULL AND push_record.requested_at >= $1 AND push_record.requested_at < $2
            AND \(Self.selected("push_record"))
            """
        let domains = asked.domains.map(DomainArray.init)
        let rows: PostgreSQLRows
        switch asked.by {
        case .app:
            rows = try self.rows(
                """
                SELECT app, \(Self.figures) FROM push_record WHERE \(condition)
                GROUP BY app ORDER BY app LIMIT \(Self.groupLimit)
                """, asked.from, asked.to, asked.app, domains)
        case .day:
            rows = try self.rows(
                """
                SELECT requested_at / 86400000 AS day, \(Self.figures) FROM push_record WHERE \(condition)
                GROUP BY day ORDER BY day LIMIT \(Self.groupLimit)
                """, asked.from, asked.to, asked.app, domains)
        case .push:
            // The first row of a push decides the page of the push, because the other rows may have been written much
            // later.
            rows = try self.rows(
                """
                WITH page AS (
                    SELECT push_record.id AS first_id, push_record.code AS name FROM push_record
                    WHERE push_record.id > $5 AND \(condition) AND NOT EXISTS (
                        SELECT 1 FROM push_record AS earlier WHERE earlier.code = push_record.code
                        AND earlier.id < push_record.id AND \(Self.selected("earlier")))
                    ORDER BY push_record.id LIMIT $6)
                SELECT first_id, \(Self.figures), name, min(requested_at), min(kind), string_agg(DISTINCT app, ',')
                FROM page JOIN push_record ON code = name AND \(Self.selected("push_record"))
                GROUP BY first_id, name ORDER BY first_id
                """, asked.from, asked.to, asked.app, domains, Int64(clamping: asked.after.number),
                Int64(clamping: asked.limit) + 1)
        }
        return rows.page(limit: asked.by == .push ? asked.limit : .max) { $0.statistics(asked.by) }
    }

    /// The maximum number of apps or days in an answer.
    private static let groupLimit = 10_000
}
