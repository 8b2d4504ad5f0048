import Bytes
package import Registration
package import Settings

/// Settings of the users that other places than the store have.
package struct UserSettings: SettingsGroup, Equatable {
    package var order: [String] = []
    package var sources: [String: UserSourceSettings] = [:]
    package var knownFor: Duration = .seconds(300)
    package var refusedFor: Duration = .seconds(10)
    package var keepFor: Duration = .seconds(86_400)
    package var remembered = 100_000

    package init() {}

    package static let schema: [Setting<UserSettings>] = [
        .list(
            "order", \.order, example: "[pbx]",
            "The names of sources in the order in which the daemon asks them for a user's password. The store is always asked first. Empty: all users are in the store. docs/Users.md."
        ),
        .named(
            "sources", \.sources, exampleName: "pbx",
            "The sources by name: a database, or an HTTP server. A phone is asked for its password before any source is asked for the user, so nobody learns which users exist."
        ),
        .duration(
            "known-for", in: .seconds(1)...(.seconds(86_400)), \.knownFor,
            "How long a user's right password is accepted without asking the source again. A longer time spares the source. A shorter time ends the access of removed users and of old passwords sooner. A new password counts at once."
        ),
        .duration(
            "refused-for", in: .seconds(1)...(.seconds(300)), \.refusedFor,
            "How old an answer may be by which the daemon refuses a password. Raise it if wrong passwords cause too many questions. A new user may have to wait this long."
        ),
        .duration(
            "keep-for", in: .seconds(0)...(.seconds(2_592_000)), \.keepFor,
            "How long the last good answer about a user counts while the source does not answer. Phones without such an answer get 503 and try again."
        ),
        .integer(
            "remember", in: 100...10_000_000, \.remembered,
            "How many users of other sources the daemon remembers, at about 1 kB each. Set it to the number of your users or more; otherwise the source is asked more often."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        for name in order where sources[name] == nil {
            found.append(
                SettingComplaint(
                    name == "store"
                        ? "the store is always asked first; name only others" : "\(name) is not among sources",
                    key: "order"))
        }
        if Set(order).count != order.count { found.append(SettingComplaint("names a source twice", key: "order")) }
        return found
    }

    /// The rules for the engine.
    package var rules: UserRules {
        var rules = UserRules()
        rules.sources = order.compactMap { name in
            sources[name].map { source in
                UserRules.Source(
                    name: name, domains: Set(source.domains.map { ByteString($0.lowercased()) }),
                    algorithms: Set(source.algorithms), parallel: source.parallel)
            }
        }
        rules.knownFor = knownFor
        rules.refusedFor = min(refusedFor, knownFor)
        rules.keptFor = keepFor
        rules.remembered = remembered
        return rules
    }

    /// The sources in their order.
    package var inOrder: [(name: String, source: UserSourceSettings)] {
        order.compactMap { name in sources[name].map { (name, $0) } }
    }
}

/// Settings of one source of users: a database or an HTTP server.
package struct UserSourceSettings: SettingsGroup, Equatable {
    package enum Method: String, Hashable, Sendable, CaseIterable {
        case post = "POST"
        case get = "GET"
    }

    package var database: DatabaseURL?
    package var query: UserQuery?
    package var passwordFile: String?
    package var url: String?
    package var method = Method.post
    package var secretFile: String?
    package var caFile: String?
    package var domains: [String] = []
    package var algorithms: [DigestAlgorithm] = [.md5]
    package var parallel = 4

    package init() {}

    package static let schema: [Setting<UserSourceSettings>] = [
        .value(
            "database", \.database, DatabaseURL.settingType,
            example: "\"postgresql://sippushd@db.example.net/kamailio\"",
            "The database with the users: postgresql://USER@HOST/DATABASE, mysql://USER@HOST:PORT/DATABASE (also for MariaDB) or sqlite:/PATH. Give the user SELECT on the table of users, and nothing else."
        ),
        .value(
            "query", \.query, queryType, example: "kamailio-subscriber",
            "The query for one user: \(UserQuery.ready.keys.sorted().joined(separator: ", ")), or a SELECT with :user, :domain and :realm. Its columns are password, or ha1 (MD5), ha1_sha256 or ha1_sha512_256; also username and realm, which are compared. Values are never put into the text of the query."
        ),
        .path(
            "password-file", \.passwordFile, example: "credential:users-db",
            "The file with the password of the database user."),
        .value(
            "url", \.url, urlType, example: "\"https://users.example.net/sip\"",
            "The HTTP server that knows the users. 200 with a JSON object that has password, ha1, ha1_sha256 or ha1_sha512_256: the user; 404: no such user; anything else: the phone gets 503. docs/Users.md."
        ),
        .choice(
            "method", \.method,
            "POST sends user, domain and realm as a JSON object. GET sends them in the query of the URL, where they can end up in logs of the server."
        ),
        .path(
            "secret-file", \.secretFile, example: "credential:users-hook",
            "The file with the secret that signs requests to url. The header is sippushd-signature: t=SECONDS,v1=HEX with the Unix time and the HMAC-SHA256 of that time, a full stop and the body; for GET, the URL takes the place of the body."
        ),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/ca.pem",
            "Certificate authorities for the server, PEM. A database connection uses TLS and checks the server's name if this file is set."
        ),
        .list(
            "domains", \.domains, example: "[example.net]",
            "The domains whose users this source has. Empty: all domains."),
        .list(
            "algorithms", of: .choice, \.algorithms,
            "The hash functions that the source has for every user: MD5, SHA-256 or SHA-512-256. A source with passwords has all of them; a source with ha1 has MD5. Phones are offered only functions that all sources have."
        ),
        .integer(
            "parallel", in: 1...64, \.parallel,
            "How many questions the source gets at the same time. For a database it is the maximum number of connections."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard (database == nil) != (url == nil) else {
            return [SettingComplaint("expected either database or url")]
        }
        if database != nil, query == nil { return [SettingComplaint("expected query for the database", key: "query")] }
        if url != nil, query != nil { return [SettingComplaint("expected none with url", key: "query")] }
        if algorithms.isEmpty { return [SettingComplaint("needs at least one", key: "algorithms")] }
        if url != nil, passwordFile != nil {
            return [SettingComplaint("expected secret-file instead, with url", key: "password-file")]
        }
        return []
    }

    private static let queryType = SettingType<UserQuery>.parsed("query") { text throws(SettingComplaint) in
        try UserQuery(text)
    } print: {
        $0.source
    }

    private static let urlType = SettingType<String>.parsed("URL") { text throws(SettingComplaint) in
        let isPlain = text.hasPrefix("http://")
        guard isPlain || text.hasPrefix("https://"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }),
            !text.contains("#")
        else {
            throw SettingComplaint("expected https://HOST/PATH, or http:// on this machine or a network of your own")
        }
        return text
    } print: {
        $0
    }
}
