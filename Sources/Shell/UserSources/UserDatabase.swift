import MariaDBClient
import PostgreSQLClient
import Registration
import Settings
import Storage

/// A connection to a database with users; only the thread that opened the connection uses it.
protocol UserDatabase: AnyObject {
    /// Runs the query for one user, with the values in the order of the query's fields (``UserQuery/Field``).
    func rows(for values: [[UInt8]]) throws(UserDatabaseError) -> UserRows
}

/// The failure of a connection or query, and the resulting answer about the user.
struct UserDatabaseError: Error {
    let answer: UserAnswer
    /// Whether the connection must be closed, so that the next query needs a new connection.
    let isConnectionLost: Bool

    init(_ answer: UserAnswer, isConnectionLost: Bool) {
        self.answer = answer
        self.isConnectionLost = isConnectionLost
    }

    /// An error after which the source is treated as away: no connection is possible, or the query fails for every
    /// user.
    static func away(_ words: String, _ cure: String, isConnectionLost: Bool = true) -> UserDatabaseError {
        UserDatabaseError(.away(UserFault(words, cure: cure)), isConnectionLost: isConnectionLost)
    }

    /// An error in the query for one user, after which the source is not treated as away. Strangers choose the names in
    /// queries, and could otherwise block all users.
    static func user(_ words: String) -> UserDatabaseError {
        UserDatabaseError(.unusable(UserFault(words, cure: queryCure)), isConnectionLost: false)
    }

    static let several = UserDatabaseError(.unusable(.severalRows), isConnectionLost: true)
    static let long = UserDatabaseError(.unusable(.tooLong), isConnectionLost: true)

    static let connectionCure = "Check whether the database runs, and the settings database and password-file."
    static let queryCure = "Correct the setting query, or grant SELECT on its tables to the database user."
}

/// The time limits of a database. A SIP request waits only two seconds for a database, but a later answer is
/// remembered.
struct DatabaseTimes: Hashable, Sendable {
    var connect: Duration = .seconds(3)
    var query: Duration = .seconds(4)
}

// MARK: PostgreSQL

final class PostgreSQLUsers: UserDatabase {
    private let connection: PostgreSQLConnection
    private let sql: String
    private let times: DatabaseTimes

    init(
        _ url: String, _ sql: String, password: String?, authorityFile: String?, _ times: DatabaseTimes
    ) throws(UserDatabaseError) {
        self.sql = sql
        self.times = times
        var parameters: [(name: String, value: String)] = []
        if let password { parameters.append(("password", password)) }
        if let authorityFile { parameters += [("sslmode", "verify-full"), ("sslrootcert", authorityFile)] }
        do throws(PostgreSQLError) {
            connection = try PostgreSQLConnection(url, parameters, within: times.connect)
        } catch {
            throw .away(error.message, UserDatabaseError.connectionCure)
        }
    }

    func rows(for values: [[UInt8]]) throws(UserDatabaseError) -> UserRows {
        do throws(PostgreSQLError) {
            let found = try connection.query(
                sql, values, rows: 1, bytes: UserRows.longestAnswer, within: times.query)
            return UserRows(columns: found.columns, rows: found.rows)
        } catch {
            switch error.kind {
            case .connection: throw .away(error.message, UserDatabaseError.connectionCure)
            case .timeout: throw UserDatabaseError(.away(.silent), isConnectionLost: true)
            case .tooManyRows: throw .several
            case .tooLong: throw .long
            // SQLSTATE class 22: the name cannot be a value of the column, such as `bob` in a column of numbers, so no
            // user has the name.
            case .query(let code) where code.hasPrefix("22"):
                throw UserDatabaseError(.unknown, isConnectionLost: false)
            // The classes 42, 3D, 28, 53, 57 and 58 of SQLSTATE mean a wrong query, missing rights or resources, or a
            // server that shuts down.
            case .query(let code) where ["42", "3D", "28", "53", "57", "58"].contains(code.prefix(2)):
                throw .away(error.message, UserDatabaseError.queryCure, isConnectionLost: false)
            case .query: throw .user(error.message)
            }
        }
    }
}

// MARK: MariaDB

final class MariaDBUsers: UserDatabase {
    private let connection: MariaDBConnection
    private let sql: String

    init(_ server: MariaDBConnection.Server, _ sql: String, _ times: DatabaseTimes) throws(UserDatabaseError) {
        self.sql = sql
        do throws(MariaDBError) {
            connection = try MariaDBConnection(
                server, within: times.connect, bytes: UserRows.longestAnswer)
        } catch {
            throw .away(error.message, UserDatabaseError.connectionCure)
        }
    }

    func rows(for values: [[UInt8]]) throws(UserDatabaseError) -> UserRows {
        do throws(MariaDBError) {
            let found = try connection.query(sql, values, rows: 1, longest: UserRows.longestValue)
            return UserRows(columns: found.columns, rows: found.rows)
        } catch {
            switch error.kind {
            case .connection: throw .away(error.message, UserDatabaseError.connectionCure)
            case .tooManyRows: throw .several
            case .tooLong: throw .long
            case .text: throw .away(error.message, UserDatabaseError.queryCure, isConnectionLost: false)
            case .values(let number) where Self.namesNobodyHas.contains(number):
                throw UserDatabaseError(.unknown, isConnectionLost: false)
            case .values: throw .user(error.message)
            }
        }
    }

    /// The error numbers for a name with characters that the column's character set lacks, so no user has the name.
    private static let namesNobodyHas: Set<UInt32> = [1267, 1270, 1271, 1300, 1366, 3854, 3988]
}

// MARK: SQLite

final class SQLiteUsers: UserDatabase {
    private let connection: Connection
    private let sql: String

    init(_ path: String, _ sql: String) throws(UserDatabaseError) {
        self.sql = sql
        var options = ConnectionOptions()
        options.access = .readOnly
        options.cacheSize = 1024
        options.busyTimeout = .seconds(1)
        do throws(SQLError) {
            connection = try Connection(path: path, options: options)
        } catch {
            throw .away("\(error)", UserDatabaseError.connectionCure)
        }
    }

    func rows(for values: [[UInt8]]) throws(UserDatabaseError) -> UserRows {
        let statement: Statement
        do throws(SQLError) {
            statement = try connection.statement(sql)
        } catch {
            throw .away(
                "\(error)", error.isOfSystem ? UserDatabaseError.connectionCure : UserDatabaseError.queryCure)
        }
        defer { statement.reset() }
        for (index, value) in values.enumerated() { statement.bind(index + 1, text: value.span) }
        do throws(SQLError) {
            var found = UserRows(columns: statement.columns, rows: [])
            // At most two rows are read, because a second row for one user is already an error.
            while found.rows.count < 2, try statement.step() {
                found.rows.append(
                    found.columns.indices.map { column in
                        statement.isNull(column) ? nil : statement.bytes(column, atMost: UserRows.longestValue + 1)
                    })
            }
            return found
        } catch {
            guard error.isOfSystem || error.code == .corrupt else { throw .user("\(error)") }
            throw .away("\(error)", UserDatabaseError.connectionCure)
        }
    }
}
