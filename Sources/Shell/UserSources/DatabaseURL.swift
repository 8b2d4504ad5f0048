import MariaDBClient
package import Settings

/// The location of a database with users, read from the setting `users.sources.NAME.database`.
package enum DatabaseURL: Hashable, Sendable {
    /// A PostgreSQL database, as a connection URI of libpq.
    case postgreSQL(String)
    case mariaDB(host: String, port: UInt16, user: String, database: String, socket: String?)
    /// An SQLite database, as the path of its file.
    case sqlite(String)

    package init(_ text: String) throws(SettingComplaint) {
        if text.hasPrefix("sqlite:") {
            let path = String(text.dropFirst("sqlite:".count))
            guard path.hasPrefix("/") else { throw SettingComplaint("expected sqlite:/PATH") }
            self = .sqlite(path)
        } else if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
            try Self.refusePassword(in: text)
            self = .postgreSQL(text)
        } else if text.hasPrefix("mysql://") || text.hasPrefix("mariadb://") {
            try Self.refusePassword(in: text)
            self = try Self.mariaDB(text)
        } else {
            throw SettingComplaint(Self.expected)
        }
    }

    package var text: String {
        switch self {
        case .postgreSQL(let url): url
        case .mariaDB(let host, let port, let user, let database, let socket):
            "mysql://\(user)@\(host.contains(":") ? "[\(host)]" : host):\(port)/\(database)"
                + (socket.map { "?socket=\($0)" } ?? "")
        case .sqlite(let path): "sqlite:\(path)"
        }
    }

    /// The part of a URL between `://` and the path, such as `user@host:port`.
    private static func authority(of text: String) -> Substring {
        guard let start = text.firstRange(of: "://")?.upperBound else { return "" }
        return text[start...].prefix { $0 != "/" && $0 != "?" }
    }

    /// Refuses a URL with a password, because many users of the machine may be able to read the settings file. The
    /// error does not quote the password.
    private static func refusePassword(in text: String) throws(SettingComplaint) {
        let login = authority(of: text).split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        let options = text.split(separator: "?", maxSplits: 1).dropFirst().joined()
        guard login.count < 2 || !login[0].contains(":"), !options.contains("password=") else {
            throw SettingComplaint("expected no password in the URL: write it into the file of password-file")
        }
    }

    /// Reads a URL such as `mysql://user@host:port/database?socket=/path`.
    private static func mariaDB(_ text: String) throws(SettingComplaint) -> DatabaseURL {
        let login = authority(of: text).split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        var place = login.last ?? ""
        let user = login.count == 2 ? String(login[0]) : ""
        var port: UInt16 = 3306
        if let colon = place.lastIndex(of: ":"), place.last != "]" {
            guard let number = UInt16(place[place.index(after: colon)...]), number > 0 else {
                throw SettingComplaint(expected)
            }
            port = number
            place = place[..<colon]
        }
        if place.first == "[", place.last == "]" { place = place.dropFirst().dropLast() }
        let path = (text.firstRange(of: "://").map { text[$0.upperBound...] } ?? "").drop { $0 != "/" }.dropFirst()
        let parts = path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let database = parts.first, !database.isEmpty, !user.isEmpty else { throw SettingComplaint(expected) }
        var socket: String?
        if parts.count == 2 {
            guard parts[1].hasPrefix("socket=/") else {
                throw SettingComplaint("expected ?socket=/PATH and no other option")
            }
            socket = String(parts[1].dropFirst("socket=".count))
        }
        return .mariaDB(
            host: place.isEmpty ? "localhost" : String(place), port: port, user: user, database: String(database),
            socket: socket)
    }

    private static let expected =
        "expected postgresql://USER@HOST/DATABASE, mysql://USER@HOST:PORT/DATABASE or sqlite:/PATH"

    /// The type of the setting `database`; error messages do not quote the URL, because the URL may contain a password.
    static let settingType = SettingType<DatabaseURL>(name: "database URL") { node throws(SettingMismatch) in
        guard let text = node.text else { throw SettingMismatch(expected, at: node.position) }
        do throws(SettingComplaint) {
            return try DatabaseURL(text)
        } catch {
            throw SettingMismatch(error.sentence, at: node.position)
        }
    } print: {
        YAMLText.scalar($0.text)
    }
}
