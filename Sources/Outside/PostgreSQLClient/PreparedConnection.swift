import CPQ
import Glibc

/// A connection that runs prepared statements in libpq's pipeline mode. A batch of statements is sent without waiting
/// for the result of each statement.
///
/// The server must send something within the time limit, or the connection counts as broken. After any error, the
/// connection must be released, and the server then rolls back the open transaction. The connection blocks its thread,
/// and only one thread at a time can use it.
@safe package final class PreparedConnection {
    private let connection: PostgreSQLConnection
    /// The time limit for each answer of the server.
    package var limit: Duration
    /// The parameters of the next statement.
    package let parameters = PostgreSQLParameters()

    private struct Prepared {
        let name: String
        let parameterCount: Int
    }

    /// The prepared statements for constant SQL, by the memory address of the SQL.
    private var fixed: [UInt: Prepared] = [:]
    private var texts: [String: Prepared] = [:]

    /// A command in the pipeline whose result has not arrived.
    private enum Sent {
        case preparation
        /// A statement with its number in the batch.
        case statement(Int)
        case sync
    }

    private var sent: [Sent] = []
    private var isInTransaction = false
    /// The number of rows that each statement of the batch changed or returned.
    private var counts: [Int] = []
    private var rows: PostgreSQLRows?
    /// The rows of all queries since the last ``results()``, in their order.
    private var allRows: [PostgreSQLRows] = []
    private var failure: PostgreSQLError?

    /// Connects to one server.
    ///
    /// - Parameters:
    ///   - server: where the server is, and how to log in.
    ///   - opening: the time limit of the connection attempt.
    ///   - limit: the time limit for each answer of the server.
    /// - Throws: why no connection is possible.
    package init(
        _ server: PostgreSQLServer, opensWithin opening: Duration, answersWithin limit: Duration
    ) throws(PostgreSQLError) {
        self.limit = limit
        connection = try PostgreSQLConnection(server.connection, server.parameters, within: opening)
        guard unsafe PQenterPipelineMode(connection.raw) == 1 else { throw connection.error(.connection) }
    }

    // MARK: Statements

    /// Sends a constant statement with the bound parameters. The statement is prepared at its first use.
    ///
    /// - Returns: the number of the statement in the batch, for ``count(of:)``.
    @discardableResult
    package func send(_ sql: StaticString) throws(PostgreSQLError) -> Int {
        let address = unsafe UInt(bitPattern: sql.utf8Start)
        if let statement = fixed[address] { return try send(statement) }
        let statement = try prepare(sql.description)
        fixed[address] = statement
        return try send(statement)
    }

    /// Sends a statement with the bound parameters. The number of different texts must be small, because each text
    /// stays prepared.
    @discardableResult
    package func send(text sql: String) throws(PostgreSQLError) -> Int {
        if let statement = texts[sql] { return try send(statement) }
        let statement = try prepare(sql)
        texts[sql] = statement
        return try send(statement)
    }

    /// Runs a query that was sent last, and returns its rows. Each answer of the server must come within the limit, or
    /// within the connection's limit.
    package func result(within limit: Duration? = nil) throws(PostgreSQLError) -> PostgreSQLRows {
        rows = nil
        if isInTransaction {
            guard unsafe PQsendFlushRequest(connection.raw) == 1 else { throw connection.error(.connection) }
        } else {
            try sync()
        }
        try receive(within: limit ?? self.limit)
        guard let found = rows else { throw PostgreSQLError(kind: .connection, message: "the query returned no rows") }
        (rows, allRows) = (nil, [])
        return found
    }

    /// Runs all statements that were sent outside a transaction, and returns the rows of the queries among them, in
    /// their order. One round trip runs all statements.
    package func results(within limit: Duration? = nil) throws(PostgreSQLError) -> [PostgreSQLRows] {
        allRows = []
        try sync()
        try receive(within: limit ?? self.limit)
        defer { allRows = [] }
        return allRows
    }

    /// Begins a transaction, and a batch of statements.
    package func begin() throws(PostgreSQLError) {
        counts.removeAll(keepingCapacity: true)
        isInTransaction = true
        try send("BEGIN")
    }

    /// Commits the transaction, and returns when the server has confirmed the commit.
    package func commit() throws(PostgreSQLError) {
        try send("COMMIT")
        isInTransaction = false
        try sync()
        try receive(within: limit)
        allRows = []
    }

    /// Runs statements without parameters outside a transaction, such as a script.
    package func finish() throws(PostgreSQLError) {
        try sync()
        try receive(within: limit)
    }

    /// The number of rows that a statement of the last batch changed.
    package func count(of statement: Int) -> Int { counts.indices.contains(statement) ? counts[statement] : 0 }

    /// Whether the server has sent nothing since the last result. An idle server sends something only when it closes
    /// the connection.
    package var isQuiet: Bool {
        var descriptor = pollfd(fd: unsafe PQsocket(connection.raw), events: Int16(POLLIN), revents: 0)
        return unsafe poll(&descriptor, 1, 0) == 0
    }

    // MARK: Sending

    private func prepare(_ sql: String) throws(PostgreSQLError) -> Prepared {
        let statement = Prepared(
            name: "s\(fixed.count + texts.count)", parameterCount: Self.highestParameter(in: sql))
        guard unsafe PQsendPrepare(connection.raw, statement.name, sql, 0, nil) == 1 else {
            throw connection.error(.connection)
        }
        sent.append(.preparation)
        return statement
    }

    /// The highest number after a dollar sign in the statement.
    private static func highestParameter(in sql: String) -> Int {
        sql.split(separator: "$").dropFirst().compactMap { Int($0.prefix { $0.isASCII && $0.isNumber }) }.max() ?? 0
    }

    private func send(_ statement: Prepared) throws(PostgreSQLError) -> Int {
        if statement.parameterCount > 0 { parameters.bindNull(statement.parameterCount) }
        let count = statement.parameterCount
        let (bytes, places) = (parameters.bytes, parameters.places)
        let isSent = unsafe bytes.withUnsafeBufferPointer { bytes in
            var values: [UnsafePointer<CChar>?] = unsafe []
            var lengths: [Int32] = []
            for place in places.prefix(count) {
                let start = unsafe UnsafeRawPointer(bytes.baseAddress)
                // A null pointer is NULL.
                unsafe values.append(
                    place.flatMap { place in
                        unsafe start.map { unsafe ($0 + place.lowerBound).assumingMemoryBound(to: CChar.self) }
                    })
                lengths.append(Int32(clamping: place?.count ?? 0))
            }
            let formats = [Int32](repeating: 1, count: count)
            return unsafe PQsendQueryPrepared(
                connection.raw, statement.name, Int32(clamping: count), values, lengths, formats, 1)
        }
        parameters.clear()
        guard isSent == 1 else { throw connection.error(.connection) }
        sent.append(.statement(counts.count))
        counts.append(0)
        return counts.count - 1
    }

    private func sync() throws(PostgreSQLError) {
        guard unsafe PQpipelineSync(connection.raw) == 1 else { throw connection.error(.connection) }
        sent.append(.sync)
    }

    // MARK: Receiving

    /// Sends what waits, and reads the results of all commands.
    private func receive(within limit: Duration) throws(PostgreSQLError) {
        try flush(within: limit)
        for command in sent {
            if case .sync = command {
                guard let result = try unsafe nextResult(within: limit) else { throw connection.error(.connection) }
                try unsafe take(result, of: command)
            } else {
                while let result = try unsafe nextResult(within: limit) { try unsafe take(result, of: command) }
            }
        }
        sent.removeAll(keepingCapacity: true)
    }

    private func take(_ result: OpaquePointer, of command: Sent) throws(PostgreSQLError) {
        switch unsafe PQresultStatus(result) {
        case PGRES_TUPLES_OK:
            let found = unsafe PostgreSQLRows(result)
            note(found.count, of: command)
            allRows.append(found)
            return rows = found
        case PGRES_COMMAND_OK:
            note(unsafe Int(String(cString: PQcmdTuples(result))) ?? 0, of: command)
            unsafe PQclear(result)
        case PGRES_PIPELINE_SYNC: unsafe PQclear(result)
        default:
            defer { unsafe PQclear(result) }
            throw unsafe Self.error(in: result) ?? connection.error(.connection)
        }
    }

    private func note(_ count: Int, of command: Sent) {
        if case .statement(let number) = command, counts.indices.contains(number) { counts[number] = count }
    }

    private static func error(in result: OpaquePointer) -> PostgreSQLError? {
        guard let code = unsafe PQresultErrorField(result, Int32(UInt8(ascii: "C"))) else { return nil }
        let message = unsafe PQresultErrorField(result, Int32(UInt8(ascii: "M"))).map { unsafe String(cString: $0) }
        return PostgreSQLError(
            kind: .query(unsafe String(cString: code)), message: message ?? "the server refused a statement")
    }

    /// The next result; `nil` after the last result of a command.
    private func nextResult(within limit: Duration) throws(PostgreSQLError) -> OpaquePointer? {
        while unsafe PQisBusy(connection.raw) != 0 {
            try connection.wait(for: Int16(POLLIN), until: ContinuousClock.now + limit)
            guard unsafe PQconsumeInput(connection.raw) == 1 else { throw connection.error(.connection) }
        }
        return unsafe PQgetResult(connection.raw)
    }

    /// Sends what waits, and reads what arrives meanwhile: the server stops reading if nobody reads its results.
    private func flush(within limit: Duration) throws(PostgreSQLError) {
        while true {
            switch unsafe PQflush(connection.raw) {
            case 0: return
            case 1:
                try connection.wait(for: Int16(POLLOUT | POLLIN), until: ContinuousClock.now + limit)
                guard unsafe PQconsumeInput(connection.raw) == 1 else { throw connection.error(.connection) }
            default: throw connection.error(.connection)
            }
        }
    }
}
