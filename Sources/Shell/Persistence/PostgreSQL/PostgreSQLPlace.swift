import PostgreSQLClient

/// The PostgreSQL database of the store, and how to log in.
package struct PostgreSQLPlace: Sendable {
    let servers: [PostgreSQLServer]
    /// The servers and the database, as the log names them.
    package let name: String
    var times = Times()
    /// Whether a writer takes the lock of the store.
    package var isExclusive = true
    /// The name of this daemon in a cluster; `nil` if no other daemon may use the store.
    package var node: String?
    /// The version of this program, for the other nodes and for operators.
    package var version = ""

    /// The time limits of connections.
    struct Times: Sendable {
        /// The time limit of a connection attempt to one server.
        var connect: Duration = .seconds(1)
        /// The time limit for each answer to the writer. A server that hangs counts as away after this time.
        var write: Duration = .milliseconds(1500)
        /// The interval of the regular questions whether the server still answers, and the time limit of the answer.
        var look: Duration = .seconds(1)
        /// The time limit of a query for operators or services, and of a change of the schema.
        var read: Duration = .seconds(30)
        /// How long the start waits until the server has noticed the end of an earlier daemon.
        var lock: Duration = .seconds(20)
    }

    /// Reads a connection string of libpq.
    ///
    /// - Parameters:
    ///   - connection: a URI, or words such as `host=a,b dbname=sippushd`.
    ///   - password: the password; `nil` if the connection string or libpq's password file has it.
    /// - Throws: an error if libpq cannot read the connection string.
    package init(_ connection: String, password: String? = nil) throws(StoreError) {
        var parameters = [
            ("target_session_attrs", "read-write"), ("keepalives_idle", "5"), ("keepalives_interval", "2"),
            ("keepalives_count", "3"),
        ]
        if let password { parameters.append(("password", password)) }
        do throws(PostgreSQLError) {
            servers = try PostgreSQLServer.servers(of: connection, parameters.map { (name: $0.0, value: $0.1) })
            let hosts = servers.map(\.name).joined(separator: ",")
            name = "postgresql \(hosts) \(try PostgreSQLServer.database(of: connection))"
        } catch {
            throw StoreError("the setting postgresql.connection cannot be read: \(error.message)")
        }
    }

    /// Connects to the first server that answers and accepts writes. On the open connection, each answer of the server
    /// must come within the limit.
    func connect(answersWithin limit: Duration) throws(PostgreSQLError) -> PreparedConnection {
        var problems: [String] = []
        var last = PostgreSQLError(kind: .connection, message: "no server")
        for server in servers {
            do throws(PostgreSQLError) {
                let connection = try PreparedConnection(server, opensWithin: times.connect, answersWithin: limit)
                if let node {
                    _ = try PostgreSQLTables(connection, patience: limit).rows(
                        "SELECT set_config('sippushd.node', $1, false)", node)
                }
                return connection
            } catch {
                last = error
                problems.append(servers.count == 1 ? error.message : "\(server.name): \(error.message)")
            }
        }
        throw PostgreSQLError(kind: last.kind, message: problems.joined(separator: "; "))
    }
}

extension PostgreSQLError {
    /// Whether the server or the network caused the error, and not the changes. SQLSTATE classes 22 and 23 are wrong
    /// values, and class 42 is a statement that the database does not understand.
    var isOfSystem: Bool {
        guard case .query(let code) = kind else { return true }
        return !["22", "23", "42"].contains(code.prefix(2)) || code == "42501"
    }

    /// The error for operators, with the SQLSTATE of the server.
    var sentence: String {
        if case .query(let code) = kind { return "\(message) (SQLSTATE \(code))" }
        return kind == .timeout ? "the server does not answer" : message
    }
}

extension PostgreSQLError: CustomStringConvertible {
    package var description: String { sentence }
}
