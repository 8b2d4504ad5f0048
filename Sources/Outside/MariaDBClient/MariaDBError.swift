/// The reason why MariaDB or MySQL returned no rows. The message never contains the values of a query.
package struct MariaDBError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The connection could not be opened, or it broke, or the server did not answer in time.
        case connection
        /// The query cannot run with any values; the number is the server's error number, or 0 if the client refused
        /// it.
        case text(UInt32)
        /// The server could not run the query with these values; the number is the server's error number.
        case values(UInt32)
        /// A value is larger than the caller's limit in bytes.
        case tooLong
        /// The query returns more rows than the caller allows.
        case tooManyRows
    }

    package let kind: Kind
    package let message: String

    /// Whether the connection can still be used.
    package var isConnectionUsable: Bool {
        switch kind {
        case .text, .values: true
        case .connection, .tooLong, .tooManyRows: false
        }
    }
}
