package import Settings

/// An SQL query for the secrets of one user, with placeholders for the values `:user`, `:domain` and `:realm`.
package struct UserQuery: Hashable, Sendable {
    /// A placeholder in the query, such as `:user`.
    package enum Field: String, Hashable, Sendable, CaseIterable {
        case user, domain, realm
    }

    /// The syntax of a database for the placeholders in a query.
    package enum Dialect: Hashable, Sendable {
        /// In PostgreSQL, placeholders are `$1`, `$2` and so on.
        case postgreSQL
        /// In MariaDB, each placeholder is `?`, so a value that occurs twice is passed twice.
        case mariaDB
        /// In SQLite, placeholders are `?1`, `?2` and so on.
        case sqlite
    }

    private enum Part: Hashable, Sendable {
        case text(String)
        case field(Field)
    }

    /// The text of the setting `query`: SQL, or the name of a built-in query.
    package let source: String
    private let parts: [Part]

    /// Reads the text of the setting `query`.
    package init(_ source: String) throws(SettingComplaint) {
        self.source = source
        guard let sql = Self.ready[source] else {
            guard source.contains(where: \.isWhitespace) else {
                let names = Self.ready.keys.sorted().joined(separator: ", ")
                throw SettingComplaint("expected a SELECT, or the name of a built-in query: \(names)")
            }
            parts = try Self.parts(of: source)
            return
        }
        parts = try Self.parts(of: sql)
    }

    /// The built-in queries by name, for the tables of well-known PBXs.
    package static let ready: [String: String] = [
        "kamailio-subscriber":
            "SELECT username, ha1, password, domain AS realm FROM subscriber WHERE username = :user AND domain = :domain",
        "asterisk-ps-auths": """
        SELECT username, CASE WHEN auth_type = 'md5' THEN md5_cred END AS ha1, \
        CASE WHEN auth_type = 'userpass' THEN password END AS password, realm \
        FROM ps_auths WHERE username = :user
        """,
        "freepbx-sip":
            "SELECT id AS username, data AS password FROM sip WHERE id = :user AND keyword = 'secret'",
        "fusionpbx-extensions": """
        SELECT e.extension AS username, e.password FROM v_extensions e \
        JOIN v_domains d ON d.domain_uuid = e.domain_uuid \
        WHERE e.extension = :user AND d.domain_name = :domain AND e.enabled = 'true'
        """,
    ]

    /// The query in the syntax of a database, and the fields in the order in which their values must be passed.
    package func text(for dialect: Dialect) -> (sql: String, fields: [Field]) {
        var sql = ""
        var fields: [Field] = []
        for part in parts {
            switch part {
            case .text(let text): sql += text
            case .field(let field) where dialect == .mariaDB:
                fields.append(field)
                sql += "?"
            case .field(let field):
                if !fields.contains(field) { fields.append(field) }
                let number = (fields.firstIndex(of: field) ?? 0) + 1
                sql += dialect == .postgreSQL ? "$\(number)" : "?\(number)"
            }
        }
        return (sql, fields)
    }

    // MARK: Reading

    /// Divides an SQL query at its placeholders, such as `:user`. Quoted texts and SQL comments in the query are copied
    /// unchanged.
    private static func parts(of source: String) throws(SettingComplaint) -> [Part] {
        var parts: [Part] = []
        var text = ""
        var rest = Substring(source)
        while let first = rest.first {
            if "'\"`".contains(first) {
                text += take(through: String(first), of: &rest)
            } else if rest.hasPrefix("--") {
                text += take(through: "\n", of: &rest)
            } else if rest.hasPrefix("/*") {
                text += take(through: "*/", of: &rest)
            } else if rest.hasPrefix("::") {
                // Two colons are a type cast in PostgreSQL, so no placeholder begins at the second colon.
                text += rest.prefix(2)
                rest = rest.dropFirst(2)
            } else if first == ":", let name = fieldName(rest.dropFirst()) {
                guard let field = Field(rawValue: name) else {
                    throw SettingComplaint(":\(name) is no field; expected :user, :domain or :realm")
                }
                parts += [.text(text), .field(field)]
                text = ""
                rest = rest.dropFirst(name.count + 1)
            } else if first == ";" || first == "?" || first == "$" {
                throw SettingComplaint("expected one query with :user, and without \(first)")
            } else {
                text.append(first)
                rest = rest.dropFirst()
            }
        }
        guard parts.contains(.field(.user)) else { throw SettingComplaint("expected :user in the query") }
        return parts + [.text(text)]
    }

    private static func fieldName(_ text: Substring) -> String? {
        let name = text.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        return name.isEmpty ? nil : String(name)
    }

    /// Removes everything from `rest` up to and including the next `end`, and returns the removed text. The search for
    /// `end` begins at the second character.
    private static func take(through end: String, of rest: inout Substring) -> Substring {
        let from = rest.index(after: rest.startIndex)
        let stop = rest[from...].firstRange(of: end)?.upperBound ?? rest.endIndex
        defer { rest = rest[stop...] }
        return rest[..<stop]
    }
}
