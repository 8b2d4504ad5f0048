import Collections
import Storage
import Timekeeping

/// Push statistics, which SQL counts over the rows of the timeline.
extension Connection {
    /// The SQL expressions that compute the statistics. For calls, SIP proves two values: a phone that registered has
    /// received the push, and a phone that answered has followed the push.
    private static let figures = """
        count(*), total(tries > 0), total(answer IN ('accepted', 'new-token')),
        total(delivery = 'finished' AND coalesce(answer NOT IN ('accepted', 'new-token'), 1)),
        total(received IS NOT NULL OR (tries > 0 AND registered IS NOT NULL)),
        total(followed IS NOT NULL OR (tries > 0 AND coalesce(ending = 'answered', 0))), total(coalesce(read > 0, 0))
        """

    /// The SQL condition that selects the apps and the domains of the query. SQL takes the columns of the condition
    /// from the innermost table.
    private static let selected = "(?3 = '' OR app = ?3) AND \(DomainList.contains("domain", 4))"

    /// Returns one row for each app or day, or for each push of a page.
    func statistics(_ asked: StatisticsQuestion) throws(SQLError) -> Page<StatisticsRow> {
        let rows: Statement
        let condition = """
            code IS NOT NULL AND requested_at >= ?1 AND requested_at < ?2 AND \(Self.selected)
            """
        switch asked.by {
        case .app:
            rows = try statement(
                """
                SELECT app, \(Self.figures) FROM push_record NOT INDEXED WHERE \(condition)
                GROUP BY app ORDER BY app LIMIT \(Self.groupLimit)
                """)
        case .day:
            rows = try statement(
                """
                SELECT requested_at / 86400000 AS day, \(Self.figures) FROM push_record NOT INDEXED WHERE \(condition)
                GROUP BY day ORDER BY day LIMIT \(Self.groupLimit)
                """)
        case .push:
            // The first row of a push decides the page of the push, because the other rows may have been written much
            // later.
            rows = try statement(
                """
                WITH page AS (
                    SELECT id AS first_id, code AS name FROM push_record AS candidate
                    WHERE id > ?5 AND \(condition) AND NOT EXISTS (
                        SELECT 1 FROM push_record AS earlier
                        WHERE earlier.code = candidate.code AND earlier.id < candidate.id AND \(Self.selected))
                    ORDER BY id LIMIT ?6)
                SELECT first_id, \(Self.figures), name, min(requested_at), kind, group_concat(DISTINCT app)
                FROM page JOIN push_record ON code = name AND \(Self.selected)
                GROUP BY first_id ORDER BY first_id
                """)
            rows.bind(5, integer: Int64(clamping: asked.after.number))
            rows.bind(6, integer: Int64(asked.limit) + 1)
        }
        rows.bind(1, integer: asked.from.milliseconds)
        rows.bind(2, integer: asked.to.milliseconds)
        rows.bind(3, text: asked.app)
        asked.domains.map(DomainList.init).bind(to: rows, at: 4)
        return try page(of: rows, limit: asked.by == .push ? asked.limit : .max) { $0.statistics(asked.by) }
    }

    /// The maximum number of apps or days in an answer.
    private static let groupLimit = 10_000
}
