import Addressing
import Bytes
import Collections
import Storage

/// Functions that convert database rows into values. A malformed row of a table is skipped, and stays in the table.
extension Connection {
    func values<Value>(
        of rows: Statement, limit: Int = .max, _ value: (Statement) -> Value?
    ) throws(SQLError) -> [Value] {
        // An open statement would prevent SQLite from shortening the write-ahead log.
        defer { rows.reset() }
        var values: [Value] = []
        while values.count < limit, try rows.step() {
            if let value = value(rows) { values.append(value) }
        }
        return values
    }

    /// Makes a page from rows that are sorted by the number in their first column.
    func page<Element>(
        of rows: Statement, limit: Int, _ value: (Statement) -> Element?
    ) throws(SQLError) -> Page<Element> {
        defer { rows.reset() }
        var elements: [Element] = []
        var last = PageCursor.beginning
        while try rows.step() {
            guard let element = value(rows) else { continue }
            guard elements.count < limit else { return Page(elements, next: last) }
            elements.append(element)
            last = PageCursor(UInt64(clamping: rows.integer(0)))
        }
        return Page(elements, next: nil)
    }
}
