import CMariaDB
import Glibc

/// A connection to a MariaDB or MySQL server. Each read and write blocks the thread, at most until a time limit.
///
/// The connection is not `Sendable`, because only one thread at a time can use it.
@safe package final class MariaDBConnection {
    private let raw: UnsafeMutablePointer<MYSQL>

    /// The address of a MariaDB or MySQL server, and the login data.
    package struct Server: Hashable, Sendable {
        package var host = "localhost"
        package var port: UInt16 = 3306
        /// The path of a Unix-domain socket, used instead of `host` and `port`.
        package var socket: String?
        package var user = ""
        package var password: String?
        package var database = ""
        /// The file with certificate authorities. If the file is set, the connection uses TLS, and checks the server's
        /// certificate and name.
        package var authorityFile: String?

        package init() {}
    }

    /// The result of a query: column names, and rows with the text of each value (`nil` for NULL).
    package struct Rows: Hashable, Sendable {
        package var columns: [String] = []
        package var rows: [[[UInt8]?]] = []
    }

    /// Connects to a server.
    ///
    /// - Parameters:
    ///   - server: the server and the login data.
    ///   - time: the time limit of the attempt, and of each later read and write, in whole seconds.
    ///   - bytes: the maximum size in bytes of one packet from the server.
    /// - Throws: why no connection is possible.
    package init(_ server: Server, within time: Duration, bytes: Int) throws(MariaDBError) {
        guard let opened = unsafe mysql_init(nil) else {
            throw MariaDBError(kind: .connection, message: "there is not enough memory")
        }
        unsafe raw = opened
        set(MYSQL_OPT_CONNECT_TIMEOUT, UInt32(clamping: max(time.components.seconds, 1)))
        set(MYSQL_OPT_READ_TIMEOUT, UInt32(clamping: max(time.components.seconds, 1)))
        set(MYSQL_OPT_WRITE_TIMEOUT, UInt32(clamping: max(time.components.seconds, 1)))
        // If LOAD DATA LOCAL were allowed, a malicious server could request any file of the machine.
        set(MYSQL_OPT_LOCAL_INFILE, 0)
        var packet = CUnsignedLong(bytes)
        unsafe mysql_options(raw, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet)
        unsafe mysql_options(raw, MYSQL_SET_CHARSET_NAME, "utf8mb4")
        if let file = server.authorityFile {
            unsafe mysql_ssl_set(raw, nil, nil, file, nil, nil)
            set(MYSQL_OPT_SSL_ENFORCE, true)
            set(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, true)
        }
        let connected = unsafe mysql_real_connect(
            raw, server.host, server.user, server.password, server.database, UInt32(server.port), server.socket, 0)
        guard unsafe connected != nil else { throw error(.connection) }
    }

    deinit { unsafe mysql_close(raw) }

    private func set(_ option: mysql_option, _ value: UInt32) {
        var value = value
        unsafe mysql_options(raw, option, &value)
    }

    private func set(_ option: mysql_option, _ value: Bool) {
        var value: my_bool = value ? 1 : 0
        unsafe mysql_options(raw, option, &value)
    }

    /// Runs an SQL query. The parameters are sent separately from the text of the query, so that they cannot change the
    /// text.
    ///
    /// After any error except `text` and `values`, the connection must be released.
    ///
    /// - Parameters:
    ///   - sql: one SQL statement with `?` for each parameter.
    ///   - parameters: the values as UTF-8 text.
    ///   - limit: the maximum number of rows, above which the query fails.
    ///   - longest: the maximum size in bytes of a value in the result.
    /// - Returns: the rows, and the column names even without rows.
    /// - Throws: why the query returned no rows.
    package func query(
        _ sql: String, _ parameters: [[UInt8]], rows limit: Int, longest: Int
    ) throws(MariaDBError) -> Rows {
        guard let statement = unsafe mysql_stmt_init(raw) else { throw error(.connection) }
        defer { unsafe mysql_stmt_close(statement) }
        guard unsafe mysql_stmt_prepare(statement, sql, CUnsignedLong(sql.utf8.count)) == 0 else {
            throw unsafe error(of: statement, isPrepared: false)
        }
        guard unsafe Int(mysql_stmt_param_count(statement)) == parameters.count else {
            throw MariaDBError(kind: .text(0), message: "the query has the wrong number of parameters")
        }
        try unsafe execute(statement, parameters)
        return try unsafe rows(of: statement, limit: limit, longest: longest)
    }

    // MARK: Inside

    /// The memory for one parameter or one value of the result, which the C library reads or writes.
    @safe private final class Cell {
        let bytes: UnsafeMutableBufferPointer<UInt8>
        let length: UnsafeMutablePointer<CUnsignedLong>
        let isNull: UnsafeMutablePointer<my_bool>

        init(capacity: Int) {
            unsafe bytes = .allocate(capacity: max(capacity, 1))
            unsafe length = .allocate(capacity: 1)
            unsafe isNull = .allocate(capacity: 1)
            unsafe length.initialize(to: 0)
            unsafe isNull.initialize(to: 0)
        }

        deinit {
            unsafe bytes.deallocate()
            unsafe length.deallocate()
            unsafe isNull.deallocate()
        }

        var binding: MYSQL_BIND {
            var binding = unsafe MYSQL_BIND()
            unsafe binding.buffer_type = MYSQL_TYPE_STRING
            unsafe binding.buffer = UnsafeMutableRawPointer(bytes.baseAddress)
            unsafe binding.buffer_length = CUnsignedLong(bytes.count)
            unsafe binding.length = length
            unsafe binding.is_null = isNull
            return unsafe binding
        }

        /// The value from the library; `nil` for NULL.
        var value: [UInt8]? {
            unsafe isNull.pointee != 0 ? nil : Array(bytes.prefix(Int(clamping: length.pointee)))
        }
    }

    private func execute(_ statement: UnsafeMutablePointer<MYSQL_STMT>, _ parameters: [[UInt8]]) throws(MariaDBError) {
        let cells = parameters.map { value in
            let cell = Cell(capacity: value.count)
            _ = unsafe cell.bytes.update(fromContentsOf: value)
            unsafe cell.length.pointee = CUnsignedLong(value.count)
            return cell
        }
        var bindings = unsafe cells.map(\.binding)
        let code = withExtendedLifetime(cells) {
            if !parameters.isEmpty, unsafe mysql_stmt_bind_param(statement, &bindings) != 0 { return Int32(1) }
            return unsafe mysql_stmt_execute(statement)
        }
        guard code == 0 else { throw unsafe error(of: statement) }
    }

    private func rows(
        of statement: UnsafeMutablePointer<MYSQL_STMT>, limit: Int, longest: Int
    ) throws(MariaDBError) -> Rows {
        var found = Rows()
        guard let metadata = unsafe mysql_stmt_result_metadata(statement) else {
            throw MariaDBError(kind: .text(0), message: "the query is not a SELECT, so it yields no rows")
        }
        defer { unsafe mysql_free_result(metadata) }
        let width = unsafe mysql_num_fields(metadata)
        for column in 0..<width {
            let field = unsafe mysql_fetch_field_direct(metadata, column)
            found.columns.append(
                unsafe field.flatMap { field in unsafe field.pointee.name.map { unsafe String(cString: $0) } } ?? "")
        }
        let cells = (0..<width).map { _ in Cell(capacity: longest) }
        var bindings = unsafe cells.map(\.binding)
        guard unsafe mysql_stmt_bind_result(statement, &bindings) == 0 else { throw unsafe error(of: statement) }
        try withExtendedLifetime(cells) { () throws(MariaDBError) in
            while true {
                switch unsafe mysql_stmt_fetch(statement) {
                case 0: break
                case MYSQL_NO_DATA: return
                case MYSQL_DATA_TRUNCATED: throw MariaDBError(kind: .tooLong, message: "a value is too long")
                default: throw unsafe error(of: statement)
                }
                found.rows.append(cells.map(\.value))
                guard found.rows.count <= limit else {
                    throw MariaDBError(kind: .tooManyRows, message: "more rows than \(limit)")
                }
            }
        }
        return found
    }

    private func error(_ kind: MariaDBError.Kind) -> MariaDBError {
        let text = unsafe mysql_error(raw).map { unsafe String(cString: $0) } ?? ""
        return MariaDBError(kind: kind, message: text.isEmpty ? "the connection broke" : text)
    }

    private func error(
        of statement: UnsafeMutablePointer<MYSQL_STMT>, isPrepared: Bool = true
    ) -> MariaDBError {
        let text = unsafe mysql_stmt_error(statement).map { unsafe String(cString: $0) } ?? ""
        let number = unsafe mysql_stmt_errno(statement)
        // Errors of the client library have numbers from 2000 to 2999; all other errors come from the server.
        let isOfConnection = (2000..<3000).contains(number) || number == 0
        return MariaDBError(
            kind: isOfConnection ? .connection : isPrepared ? .values(number) : .text(number), message: text)
    }
}
