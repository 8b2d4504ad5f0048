import CPQ

/// One server of a connection string, with the parameters of libpq for this server alone.
///
/// libpq tries the servers of a connection string one after the other, but only its blocking functions have a time limit
/// for each server. A caller tries the servers itself.
package struct PostgreSQLServer: Sendable {
    /// The address of the server, as the connection string has it.
    package let name: String
    let connection: String
    let parameters: [(name: String, value: String)]

    /// Reads the servers of a connection string, in their order.
    ///
    /// - Parameters:
    ///   - connection: a URI such as `postgresql://user@a,b/database`, or words such as `host=a,b dbname=database`.
    ///   - parameters: further parameters of libpq, which override the parameters of the connection string.
    /// - Returns: at least one server.
    /// - Throws: an error if libpq cannot read the connection string.
    package static func servers(
        of connection: String, _ parameters: [(name: String, value: String)]
    ) throws(PostgreSQLError) -> [PostgreSQLServer] {
        let words = try words(of: connection)
        let (hosts, addresses) = (list(words["host"]), list(words["hostaddr"]))
        let ports = list(words["port"])
        return (0..<max(1, hosts.count, addresses.count)).map { index in
            var own = parameters
            for (name, values) in [("host", hosts), ("hostaddr", addresses)] where values.indices.contains(index) {
                own.append((name, values[index]))
            }
            if let port = ports.indices.contains(index) ? ports[index] : ports.first { own.append(("port", port)) }
            let host =
                hosts.indices.contains(index) ? hosts[index] : addresses.indices.contains(index) ? addresses[index] : ""
            return PostgreSQLServer(
                name: host.isEmpty ? "the default server" : host, connection: connection, parameters: own)
        }
    }

    private static func list(_ text: String?) -> [String] {
        text?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? []
    }

    /// The name of the database in a connection string; empty if libpq chooses it.
    package static func database(of connection: String) throws(PostgreSQLError) -> String {
        try words(of: connection)["dbname"] ?? ""
    }

    /// The parameters in a connection string, by libpq's names.
    private static func words(of connection: String) throws(PostgreSQLError) -> [String: String] {
        var problem: UnsafeMutablePointer<CChar>?
        guard let options = unsafe PQconninfoParse(connection, &problem) else {
            let text = unsafe problem.map { unsafe String(cString: $0) } ?? "there is not enough memory"
            unsafe PQfreemem(problem)
            throw PostgreSQLError(kind: .connection, message: text.split(separator: "\n").joined(separator: " "))
        }
        defer { unsafe PQconninfoFree(options) }
        var words: [String: String] = [:]
        var option = unsafe options
        while let keyword = unsafe option.pointee.keyword {
            if let value = unsafe option.pointee.val { unsafe words[String(cString: keyword)] = String(cString: value) }
            unsafe option += 1
        }
        return words
    }
}
