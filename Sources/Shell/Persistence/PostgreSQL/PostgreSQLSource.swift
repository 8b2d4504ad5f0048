import PostgreSQLClient

/// Opens connections to PostgreSQL for a ``StoreReader``. Reads go to the server that accepts writes, because another
/// server can lag behind.
///
/// - The class is `@unchecked Sendable`, because only the reader's thread uses it.
final class PostgreSQLSource: TableSource, @unchecked Sendable {
    private let address: PostgreSQLPlace
    private var open: PostgreSQLTables?

    init(_ address: PostgreSQLPlace) { self.address = address }

    var place: String { address.name }

    func tables() throws -> any StoreTables {
        if let open, open.connection.isQuiet { return open }
        open = nil
        let opened = try address.open()
        try PostgreSQLSchema.state(in: opened).check()
        open = opened
        return opened
    }

    func writableTables() throws -> any StoreTables { try address.open() }

    func close() { open = nil }
}
