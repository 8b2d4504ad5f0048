/// Why PostgreSQL returned no rows. The message never contains values of a query.
package struct PostgreSQLError: Error, Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The connection could not be opened, or broke.
        case connection
        case timeout
        /// The server refused the query with the given SQLSTATE (five characters).
        case query(String)
        /// The answer is longer than the limit of the query.
        case tooLong
        /// The query returns more rows than its limit.
        case tooManyRows
    }

    package let kind: Kind
    package let message: String

    package init(kind: Kind, message: String) { (self.kind, self.message) = (kind, message) }

    /// Whether the connection can still be used after the error.
    package var isConnectionUsable: Bool { if case .query = kind { true } else { false } }
}
