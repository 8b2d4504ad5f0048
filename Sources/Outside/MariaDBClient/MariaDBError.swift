/// Why MariaDB or MySQL returned no rows. The message never contains values of a query.
package struct MariaDBError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The connection could not be opened, broke, or got no answer in time.
        case connection
        /// The SQL is faulty, and cannot run with any values. The number is the database server's error number, or 0 if
        /// the client library refused the query.
        case text(UInt32)
        /// The server could not run the query with the given values; the number is its error number.
        case values(UInt32)
        /// A value is longer than the limit of the query.
        case tooLong
        /// The query returns more rows than its limit.
        case tooManyRows
    }

    package let kind: Kind
    package let message: String

    /// Whether the connection can still be used after the error.
    package var isConnectionUsable: Bool {
        switch kind {
        case .text, .values: true
        case .connection, .tooLong, .tooManyRows: false
        }
    }
}
