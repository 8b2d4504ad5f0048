import CPQ
import Glibc

/// A connection to a PostgreSQL server that blocks its thread. Each operation takes at most its time limit, except for
/// the DNS look-up of the server's name.
///
/// The connection is not `Sendable`, because only one thread at a time can use it.
@safe package final class PostgreSQLConnection {
    let raw: OpaquePointer

    /// The result of a query: column names, and rows with the text of each value (`nil` for NULL).
    package struct Rows: Hashable, Sendable {
        package var columns: [String] = []
        package var rows: [[[UInt8]?]] = []
    }

    /// Connects to a PostgreSQL server.
    ///
    /// - Parameters:
    ///   - url: a connection URI, such as `postgresql://user@host/database?sslmode=require`.
    ///   - parameters: further parameters of libpq, which override the URI's parameters.
    ///   - time: the time limit of the whole attempt.
    /// - Throws: why no connection is possible.
    package init(_ url: String, _ parameters: [(name: String, value: String)], within time: Duration)
        throws(PostgreSQLError)
    {
        let all = [("dbname", url), ("client_encoding", "UTF8"), ("application_name", "sippushd")] + parameters
        let opened = unsafe Self.withPointers(to: all.map(\.0)) { names in
            unsafe Self.withPointers(to: all.map(\.1)) { unsafe PQconnectStartParams(names, $0, 1) }
        }
        guard let opened = unsafe opened else {
            throw PostgreSQLError(kind: .connection, message: "there is not enough memory")
        }
        unsafe raw = opened
        guard unsafe PQstatus(raw) != CONNECTION_BAD else { throw error(.connection) }
        let end = ContinuousClock.now + time
        var wanted = PGRES_POLLING_WRITING
        while wanted != PGRES_POLLING_OK {
            guard wanted == PGRES_POLLING_READING || wanted == PGRES_POLLING_WRITING else { throw error(.connection) }
            try wait(for: Int16(wanted == PGRES_POLLING_READING ? POLLIN : POLLOUT), until: end)
            wanted = unsafe PQconnectPoll(raw)
        }
        unsafe PQsetnonblocking(raw, 1)
        // Without a receiver, libpq would write the server's notices to standard error.
        unsafe PQsetNoticeReceiver(raw, { _, _ in }, nil)
    }

    deinit { unsafe PQfinish(raw) }

    /// Runs a query. The parameters are sent separately from the text of the query, so that they cannot change the
    /// text.
    ///
    /// After any error except `query`, the connection must be released.
    ///
    /// - Parameters:
    ///   - sql: one SQL statement, in which `$1`, `$2` and so on stand for the parameters.
    ///   - parameters: the values as UTF-8 text without zero bytes.
    ///   - limit: the maximum number of rows, above which the query fails.
    ///   - bytes: the maximum size of the answer in bytes.
    ///   - time: the time limit until the last row has arrived.
    /// - Returns: the rows, and the column names even without rows.
    /// - Throws: why the query returned no rows.
    package func query(
        _ sql: String, _ parameters: [[UInt8]], rows limit: Int, bytes: Int, within time: Duration
    ) throws(PostgreSQLError) -> Rows {
        let end = ContinuousClock.now + time
        let texts = parameters.map { String(decoding: $0, as: UTF8.self) }
        let isSent = unsafe Self.withPointers(to: texts) { values in
            unsafe PQsendQueryParams(raw, sql, Int32(clamping: texts.count), nil, values, nil, nil, 0)
        }
        guard isSent == 1 else { throw error(.connection) }
        // Without single-row mode, libpq would collect all rows of a large table in memory.
        unsafe PQsetSingleRowMode(raw)
        try flush(until: end)
        var found = Rows()
        var left = bytes
        while let result = try unsafe nextResult(&left, until: end) {
            defer { unsafe PQclear(result) }
            switch unsafe PQresultStatus(result) {
            case PGRES_SINGLE_TUPLE, PGRES_TUPLES_OK:
                unsafe Self.read(result, into: &found)
                // After too many rows, the remaining rows are not read, so the connection cannot run another query.
                if found.rows.count > limit {
                    throw PostgreSQLError(kind: .tooManyRows, message: "more rows than \(limit)")
                }
            case PGRES_COMMAND_OK: break
            default:
                let code = unsafe PQresultErrorField(result, Int32(UInt8(ascii: "C"))).map {
                    unsafe String(cString: $0)
                }
                let text = unsafe PQresultErrorField(result, Int32(UInt8(ascii: "M"))).map {
                    unsafe String(cString: $0)
                }
                guard let code else { throw error(.connection) }
                try drain(&left, until: end)
                throw PostgreSQLError(kind: .query(code), message: text ?? "the query failed")
            }
        }
        return found
    }

    // MARK: Inside

    private static func read(_ result: OpaquePointer, into found: inout Rows) {
        let width = unsafe PQnfields(result)
        if found.columns.isEmpty {
            found.columns = (0..<width).map { column in
                unsafe PQfname(result, column).map { unsafe String(cString: $0) } ?? ""
            }
        }
        let height = unsafe PQntuples(result)
        for row in 0..<height {
            found.rows.append(
                (0..<width).map { column in
                    guard unsafe PQgetisnull(result, row, column) == 0,
                        let value = unsafe PQgetvalue(result, row, column)
                    else { return nil }
                    let count = Int(unsafe PQgetlength(result, row, column))
                    return unsafe Array(UnsafeRawBufferPointer(start: value, count: count))
                })
        }
    }

    /// The next result of the query; `nil` after the last result.
    private func nextResult(
        _ left: inout Int, until end: ContinuousClock.Instant
    ) throws(PostgreSQLError) -> OpaquePointer? {
        while unsafe PQisBusy(raw) != 0 {
            try wait(for: Int16(POLLIN), until: end)
            left -= Int(unsafe pq_bytes_waiting(PQsocket(raw)))
            guard unsafe PQconsumeInput(raw) == 1 else { throw error(.connection) }
            // A row above the limit ends the query, because libpq would read a row of any length into memory.
            if left < 0, unsafe PQisBusy(raw) != 0 {
                throw PostgreSQLError(kind: .tooLong, message: "the answer is too long")
            }
        }
        return unsafe PQgetResult(raw)
    }

    private func drain(_ left: inout Int, until end: ContinuousClock.Instant) throws(PostgreSQLError) {
        while let result = try unsafe nextResult(&left, until: end) { unsafe PQclear(result) }
    }

    private func flush(until end: ContinuousClock.Instant) throws(PostgreSQLError) {
        while true {
            switch unsafe PQflush(raw) {
            case 0: return
            case 1: try wait(for: Int16(POLLOUT), until: end)
            default: throw error(.connection)
            }
        }
    }

    /// Waits until the socket is ready for the poll events.
    func wait(for events: Int16, until end: ContinuousClock.Instant) throws(PostgreSQLError) {
        while true {
            let left = (end - ContinuousClock.now) / .milliseconds(1)
            guard left > 0 else { throw PostgreSQLError(kind: .timeout, message: "no answer in time") }
            var descriptor = pollfd(fd: unsafe PQsocket(raw), events: events, revents: 0)
            guard descriptor.fd >= 0 else { throw error(.connection) }
            switch unsafe poll(&descriptor, 1, Int32(min(left.rounded(.up), 60_000))) {
            case 1...: return
            case 0: continue
            default: if errno != EINTR { throw error(.connection) }
            }
        }
    }

    /// The connection's last error as one line, which may name the server, but never a password.
    func error(_ kind: PostgreSQLError.Kind) -> PostgreSQLError {
        let text = unsafe PQerrorMessage(raw).map { unsafe String(cString: $0) } ?? ""
        let line = text.split(separator: "\n").joined(separator: " ")
        return PostgreSQLError(kind: kind, message: line.isEmpty ? "the connection broke" : line)
    }

    /// Calls `body` with a C array of strings, ended by a null pointer.
    static func withPointers<Result>(
        to texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Result
    ) -> Result {
        var pointers: [UnsafePointer<CChar>?] = unsafe []
        for text in texts { unsafe pointers.append(UnsafePointer(strdup(text))) }
        unsafe pointers.append(nil)
        defer {
            for index in texts.indices { unsafe free(UnsafeMutablePointer(mutating: pointers[index])) }
        }
        return unsafe pointers.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { preconditionFailure("the array is not empty") }
            return unsafe body(base)
        }
    }
}
