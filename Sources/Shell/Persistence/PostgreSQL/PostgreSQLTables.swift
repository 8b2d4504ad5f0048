import Bytes
import Collections
import PostgreSQLClient

extension PostgreSQLParameters: SQLParameters {}
extension PostgreSQLRow: StoredRow {}

/// The store's tables over one connection to PostgreSQL. The files in the folder `Rows` have the functions.
final class PostgreSQLTables {
    let connection: PreparedConnection
    /// The time limit for the rows of one query.
    var patience: Duration

    init(_ connection: PreparedConnection, patience: Duration) {
        (self.connection, self.patience) = (connection, patience)
    }

    /// Sends a constant statement with its parameters, in their order, and does not wait for the result.
    ///
    /// - Returns: the statement's number in the transaction.
    @discardableResult
    func send<each Parameter: SQLParameter>(
        _ sql: StaticString, _ parameters: repeat each Parameter
    ) throws(PostgreSQLError) -> Int {
        bind(repeat each parameters)
        return try connection.send(sql)
    }

    /// Sends a constant statement with the parameters that `values` binds.
    @discardableResult
    func send(
        _ sql: StaticString, values: (inout ParameterList<PostgreSQLParameters>) -> Void
    ) throws(PostgreSQLError) -> Int {
        var list = ParameterList(connection.parameters)
        values(&list)
        return try connection.send(sql)
    }

    /// Runs a query with its parameters, in their order.
    func rows<each Parameter: SQLParameter>(
        _ sql: String, _ parameters: repeat each Parameter
    ) throws(PostgreSQLError) -> PostgreSQLRows {
        bind(repeat each parameters)
        try connection.send(text: sql)
        return try connection.result(within: patience)
    }

    private func bind<each Parameter: SQLParameter>(_ parameters: repeat each Parameter) {
        var values = ParameterList(connection.parameters)
        for parameter in repeat each parameters { values.add(parameter) }
    }

    /// Runs `body` in a transaction. If `body` throws, the connection must be released.
    func transaction(_ body: () throws(PostgreSQLError) -> Void) throws(PostgreSQLError) {
        try connection.begin()
        try body()
        try connection.commit()
    }
}

extension PostgreSQLRows {
    /// The values of all rows. A malformed row of a table is skipped, and stays in the table.
    func values<Value>(_ value: (PostgreSQLRow) -> Value?) -> [Value] {
        (0..<count).compactMap { value(self[$0]) }
    }

    /// Makes a page from rows that are sorted by the number in their first column. The query for the rows has the limit
    /// of the page plus one.
    func page<Element>(limit: Int, _ value: (PostgreSQLRow) -> Element?) -> Page<Element> {
        var elements: [Element] = []
        var last = PageCursor.beginning
        for index in 0..<count {
            // After a full page, the cursor is the number of its last row.
            guard index < limit else { return Page(elements, next: last) }
            if let element = value(self[index]) { elements.append(element) }
            last = PageCursor(UInt64(clamping: self[index].integer(0)))
        }
        return Page(elements, next: nil)
    }

    /// The number in the first column of the first row; 0 if there is none.
    var number: Int64 { count > 0 ? self[0].integer(0) : 0 }
}

/// The domains whose rows a statement selects, as an array of PostgreSQL. NULL as the parameter selects the rows of all
/// domains.
struct DomainArray: SQLParameter {
    let domains: [ByteString]

    /// Returns the SQL condition that the column is one of the domains in the parameter with the given number.
    static func contains(_ column: String, _ parameter: Int) -> String {
        "($\(parameter)::bytea[] IS NULL OR \(column) = ANY($\(parameter)::bytea[]))"
    }

    func bind(to statement: some SQLParameters, at index: Int) {
        statement.bind(index, blob: PostgreSQLParameters.array(domains.map(\.array)).span)
    }
}
