/// Why MariaDB or MySQL gave no rows. The message never has values of a query.
package struct MariaDBError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// There is no connection, or it broke, or the server did not answer in time.
        case connection
        /// The server refused the text of the query, with this number.
        case text(UInt32)
        /// The server could not run the query with these values, with this number.
        case values(UInt32)
        /// A value or the answer exceeds the limit of bytes.
        case tooLong
        /// The query yields more rows than the caller allows.
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
