/// The reason why MariaDB or MySQL returned no rows. The message never contains the values of a query.
package struct MariaDBError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The connection could not be opened, or it broke, or the server did not answer in time.
        case connection
        /// The SQL query is faulty, so it cannot run with any values. The number is the database server's error number,
        /// or 0 if the client library refused the query.
        case text(UInt32)
        /// The server could not run the query with the given values; the number is the server's error number.
        case values(UInt32)
        /// A value is longer than the limit in bytes that was passed to the query.
        case tooLong
        /// The query returns more rows than the limit that was passed to the query.
        case tooManyRows
    }

    package let kind: Kind
    package let message: String

    /// Whether the database connection can still be used after the error.
    package var isConnectionUsable: Bool {
        switch kind {
        case .text, .values: true
        case .connection, .tooLong, .tooManyRows: false
        }
    }
}
