import CPQ

/// The rows of a query's result, in PostgreSQL's binary format.
@safe package final class PostgreSQLRows {
    private let raw: OpaquePointer
    package let count: Int

    init(_ raw: OpaquePointer) {
        unsafe self.raw = raw
        count = Int(unsafe PQntuples(raw))
    }

    deinit { unsafe PQclear(raw) }

    package subscript(index: Int) -> PostgreSQLRow { PostgreSQLRow(rows: self, index: Int32(clamping: index)) }

    fileprivate func withBytes<Result>(_ row: Int32, _ column: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        let column = Int32(clamping: column)
        // libpq answers a row or column out of range like NULL.
        let start = unsafe PQgetvalue(raw, row, column)
        let count = Int(unsafe PQgetlength(raw, row, column))
        let bytes = unsafe UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count)
        return body(unsafe Span(_unsafeElements: bytes.assumingMemoryBound(to: UInt8.self)))
    }

    fileprivate func isNull(_ row: Int32, _ column: Int) -> Bool {
        unsafe PQgetisnull(raw, row, Int32(clamping: column)) != 0
    }
}

/// One row of a result. Columns are counted from 0.
package struct PostgreSQLRow {
    let rows: PostgreSQLRows
    let index: Int32

    package func isNull(_ column: Int) -> Bool { rows.isNull(index, column) }

    /// The number in a column of the type `bigint`; 0 for NULL and for other types.
    package func integer(_ column: Int) -> Int64 {
        withBytes(column) { bytes in
            guard bytes.count == 8 else { return 0 }
            var number: UInt64 = 0
            for place in bytes.indices { number = number << 8 | UInt64(bytes[place]) }
            return Int64(bitPattern: number)
        }
    }

    /// Passes the bytes of a text or binary column to `body`, or an empty span for NULL. The bytes are valid only
    /// during the call.
    package func withBytes<Result>(_ column: Int, _ body: (Span<UInt8>) -> Result) -> Result {
        rows.withBytes(index, column, body)
    }

    package func bytes(_ column: Int) -> [UInt8] {
        withBytes(column) { span in unsafe span.withUnsafeBufferPointer { unsafe Array($0) } }
    }

    /// The value of a column as text, with invalid UTF-8 replaced.
    package func text(_ column: Int) -> String { String(decoding: bytes(column), as: UTF8.self) }
}
