import Bytes
package import Registration
package import Settings

/// The settings under `users`: sources of users besides the daemon's own store.
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
            "The names of the sources of users, in the order in which the daemon queries them for a user. The daemon always looks for the user in its own store first. If the list is empty, all users are in the store. See docs/Users.md."
        ),
        .named(
            "sources", \.sources, exampleName: "pbx",
            "The sources of users by name. Each source is a database or an HTTP server. The daemon queries a source of users only after the phone has sent credentials, so strangers cannot learn which users exist."
        ),
        .duration(
            "known-for", in: .seconds(1)...(.seconds(86_400)), \.knownFor,
            "How long the daemon accepts a user's right password without a new query to the source of users. With a longer time, the daemon queries the source of users less often. With a shorter time, the daemon refuses removed users and old passwords sooner."
        ),
        .duration(
            "refused-for", in: .seconds(1)...(.seconds(300)), \.refusedFor,
            "How long the daemon refuses a wrong password or an unknown user without a new query to the source of users. If wrong passwords cause too many queries to the source of users, raise `refused-for`. The daemon accepts a new user or a new password at the latest when `refused-for` has passed."
        ),
        .duration(
            "keep-for", in: .seconds(0)...(.seconds(2_592_000)), \.keepFor,
            "How long the daemon uses the last good answer about a user while the source does not answer. If the daemon remembers no good answer about the user, the phone gets 503 with `Retry-After`."
        ),
        .integer(
            "remember", in: 100...10_000_000, \.remembered,
            "How many users from databases and HTTP servers the daemon remembers, at about 1 kB each. If `users.remember` is lower than the number of your users, the daemon asks the sources more often."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        for name in order where sources[name] == nil {
            found.append(
                SettingComplaint(
                    name == "store"
                        ? "the store is always asked first; leave it out" : "\(name) is not among sources",
                    key: "order"))
        }
        if Set(order).count != order.count { found.append(SettingComplaint("names a source twice", key: "order")) }
        return found
    }

    /// The sources of users, as settings in the form that the engine uses.
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

    /// The names and settings of the sources, in the order in which the daemon asks them.
    package var inOrder: [(name: String, source: UserSourceSettings)] {
        order.compactMap { name in sources[name].map { (name, $0) } }
    }
}

/// The settings of one source of users, which is a database or an HTTP server.
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
            "The database with the users: postgresql://USER@HOST/DATABASE, mysql://USER@HOST:PORT/DATABASE (also for MariaDB) or sqlite:/PATH. Grant the database user only SELECT on the table of users."
        ),
        .value(
            "query", \.query, queryType, example: "kamailio-subscriber",
            "The query for one user: the name of a built-in query (\(UserQuery.ready.keys.sorted().joined(separator: ", "))), or a SELECT with `:user`, `:domain` and `:realm`. The SQL query must return a column `password`, `ha1` (MD5), `ha1_sha256` or `ha1_sha512_256`. The columns `username` and `realm` are optional; the daemon compares their values with its own. The daemon never writes values into the text of the query."
        ),
        .path(
            "password-file", \.passwordFile, example: "credential:users-db",
            "The file with the password of the database user."),
        .value(
            "url", \.url, urlType, example: "\"https://users.example.net/sip\"",
            "The URL of the HTTP server that has the users. The HTTP server of users answers 200 with a JSON object that has `password`, `ha1`, `ha1_sha256` or `ha1_sha512_256`, or 404 for an unknown user. After an HTTP answer other than 200 and 404, the phone gets 503 unless the daemon remembers the user. See docs/Users.md."
        ),
        .choice(
            "method", \.method,
            "The HTTP method of the daemon's requests. POST sends user, domain and realm as a JSON object. GET sends user, domain and realm in the query of the URL. Web servers often write the query of a URL into their logs."
        ),
        .path(
            "secret-file", \.secretFile, example: "credential:users-hook",
            "The file with the secret by which the daemon signs its requests to `url`. Each request then has the header field `sippushd-signature: t=SECONDS,v1=HEX`. SECONDS is the Unix time. HEX is the HMAC-SHA256 of SECONDS, a full stop and the body, or for GET, the whole URL instead of the body."
        ),
        .path(
            "ca-file", \.caFile, example: "/etc/sippushd/ca.pem",
            "The PEM file with the certificate authorities that the daemon trusts for the source of users (database or HTTP server). If `ca-file` is set, a database connection uses TLS, and the daemon checks the server's name."
        ),
        .list(
            "domains", \.domains, example: "[example.net]",
            "The domains whose users are in the source (database or HTTP server). If the list is empty, the source of users is for all domains."
        ),
        .list(
            "algorithms", of: .choice, \.algorithms,
            "The hash functions for which the source has a hash of every user: MD5, SHA-256 or SHA-512-256. List all three hash functions for a source with passwords, and only MD5 for a source with `ha1`. The daemon offers phones only hash functions that all sources of users have."
        ),
        .integer(
            "parallel", in: 1...64, \.parallel,
            "The maximum number of queries to the source of users at the same time. For a database, parallel is also the maximum number of connections."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard (database == nil) != (url == nil) else {
            return [SettingComplaint("expected either database or url")]
        }
        if database != nil, query == nil { return [SettingComplaint("expected query for the database", key: "query")] }
        if url != nil, query != nil { return [SettingComplaint("expected no query with url", key: "query")] }
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

    private static let urlType = SettingType<String>.checked("URL") { text throws(SettingComplaint) in
        let isPlain = text.hasPrefix("http://")
        guard isPlain || text.hasPrefix("https://"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }),
            !text.contains("#")
        else {
            throw SettingComplaint("expected https://HOST/PATH, or http:// on this machine or a network of your own")
        }
    }
}
