import Storage

/// SQLite's tables: the files in the folder `Rows` have the functions.
extension Connection: StoreTables {}

/// Opens the store's SQLite file for a ``StoreReader``.
///
/// - The class is `@unchecked Sendable`, because only the reader's thread uses it.
final class SQLiteSource: TableSource, @unchecked Sendable {
    let place: String
    private var connection: Connection?
    /// The identities of the store's files when the connection was opened.
    private var files: StoreFiles?

    init(path: String) { place = path }

    func tables() throws -> any StoreTables { try readingConnection() }

    func writableTables() throws -> any StoreTables { try Connection.openStore(place, mayCreate: false) }

    func close() { connection = nil }

    func readingConnection() throws(SQLError) -> Connection {
        // The connection to replaced files is opened again, because a connection to a removed file would read its old
        // contents forever.
        let found = StoreFiles(place)
        if let connection, found == files { return connection }
        files = found
        var options = ConnectionOptions()
        options.access = .readOnly
        options.cacheSize = 2048
        let opened = try Connection(path: place, options: options)
        connection = opened
        return opened
    }
}
