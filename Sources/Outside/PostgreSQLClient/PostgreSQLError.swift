/// Why PostgreSQL gave no rows. The message never has values of a query.
package struct PostgreSQLError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// There is no connection, or it broke.
        case connection
        case timeout
        /// The server refused the query. The five characters are its SQLSTATE.
        case query(String)
        /// The answer exceeds the limit of bytes.
        case tooLong
        /// The query yields more rows than the caller allows.
        case tooManyRows
    }

    package let kind: Kind
    package let message: String

    /// Whether the connection can still be used.
    package var isConnectionUsable: Bool { if case .query = kind { true } else { false } }
}
