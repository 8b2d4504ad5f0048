import Bytes
import Crypto
import MariaDBClient
package import Reactor
package import Registration
import Settings
import Telemetry

/// Passes each query for a user to its database or HTTP server, and the answer back to the engine's loop.
///
/// - The type is `@unchecked Sendable`, because only its event loop uses the object.
package final class UserSources: @unchecked Sendable {
    private enum Source {
        case database(DatabaseSource, [UserQuery.Field])
        case http(HTTPUserSource)
        /// A source that cannot be asked, because a file in its settings is unusable.
        case unusable(UserFault)
    }

    private let loop: EventLoop
    private let sources: [Source]

    /// Prepares the sources in the settings without asking them.
    package convenience init(_ settings: UserSettings, on loop: EventLoop) throws(SystemError) {
        try self.init(settings, on: loop, times: DatabaseTimes())
    }

    init(_ settings: UserSettings, on loop: EventLoop, times: DatabaseTimes) throws(SystemError) {
        self.loop = loop
        var sources: [Source] = []
        for (_, source) in settings.inOrder { sources.append(try Self.make(source, on: loop, times)) }
        self.sources = sources
    }

    /// Asks one source about a user, and calls `done` once on the loop, possibly before `ask` returns.
    package func ask(_ question: UserQuestion, _ done: @escaping (UserAnswer) -> Void) {
        guard sources.indices.contains(question.source) else { return done(.unknown) }
        switch sources[question.source] {
        case .unusable(let fault): done(.away(fault))
        case .http(let source): source.ask(question, done)
        case .database(let source, let fields):
            let back = Back(done)
            source.ask(fields.map { Self.value(of: $0, in: question) }) { [loop] answer in
                loop.post { back.done(answer) }
            }
        }
    }

    package func close() {
        for source in sources {
            switch source {
            case .database(let source, _): source.stop()
            case .http(let source): source.close()
            case .unusable: break
            }
        }
    }

    /// The completion handler of a query for a user. The database's thread passes the handler to the loop, and the loop
    /// calls the handler.
    ///
    /// - The type is `@unchecked Sendable`, because only the event loop calls the completion handler.
    private final class Back: @unchecked Sendable {
        let done: (UserAnswer) -> Void
        init(_ done: @escaping (UserAnswer) -> Void) { self.done = done }
    }

    private static func value(of field: UserQuery.Field, in question: UserQuestion) -> [UInt8] {
        switch field {
        case .user: question.name.array
        case .domain: question.domain.array
        case .realm: question.realm.array
        }
    }

    // MARK: Making

    private static func make(
        _ settings: UserSourceSettings, on loop: EventLoop, _ times: DatabaseTimes
    ) throws(SystemError) -> Source {
        let secret: String?
        do throws(SettingsError) {
            secret = try settings.secretText()
        } catch {
            return .unusable(UserFault(error.description, cure: "Correct the file, then restart the daemon."))
        }
        if let url = settings.url {
            return .http(
                HTTPUserSource(
                    url, settings.method, secret: secret.map { Array($0.utf8) },
                    authority: settings.caFile.map { .file($0) }, on: loop))
        }
        guard let (open, fields) = settings.opener(password: secret, times) else {
            return .unusable(UserFault("it has neither database nor url", cure: "Set database or url."))
        }
        return .database(
            try DatabaseSource(name: "users", parallel: settings.parallel, open: open), fields)
    }
}

extension UserSourceSettings {
    /// The maximum size in bytes of a file with a password or a secret.
    package static var longestSecret: Int { 4096 }

    /// The source's first file that systemd passes only to the service; `nil` if this process can read all files.
    var unseenCredential: String? {
        [passwordFile, secretFile, caFile].compactMap(\.self).first { Credential.isMissing($0) && !Credential.isPassed }
    }

    /// The content of the file with the password or the secret, without the line end; `nil` if the settings name no
    /// such file.
    func secretText() throws(SettingsError) -> String? {
        guard let file = passwordFile ?? secretFile else { return nil }
        let bytes = try SettingsFile.bytes(at: file, limit: Self.longestSecret)
        let end = bytes.lastIndex { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") } ?? -1
        return String(decoding: bytes[...end], as: UTF8.self)
    }

    /// The function that connects to the database, and the fields of the query; `nil` for a source over HTTP.
    func opener(password: String?, _ times: DatabaseTimes) -> (DatabaseSource.Open, [UserQuery.Field])? {
        guard let database, let query else { return nil }
        let authorityFile = caFile
        switch database {
        case .sqlite(let path):
            let (sql, fields) = query.text(for: .sqlite)
            return ({ () throws(UserDatabaseError) in try SQLiteUsers(path, sql) }, fields)
        case .postgreSQL(let url):
            let (sql, fields) = query.text(for: .postgreSQL)
            return (
                { () throws(UserDatabaseError) in
                    try PostgreSQLUsers(url, sql, password: password, authorityFile: authorityFile, times)
                }, fields
            )
        case .mariaDB(let host, let port, let user, let name, let socket):
            let (sql, fields) = query.text(for: .mariaDB)
            var server = MariaDBConnection.Server()
            (server.host, server.port, server.user, server.database, server.socket) = (host, port, user, name, socket)
            server.password = password
            server.authorityFile = authorityFile
            let place = server
            return ({ () throws(UserDatabaseError) in try MariaDBUsers(place, sql, times) }, fields)
        }
    }
}
