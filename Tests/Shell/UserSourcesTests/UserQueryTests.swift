import Bytes
import Registration
import Settings
import Testing

@testable import UserSources

@Suite struct `Queries for users` {
    @Test func `the values get the places that each database wants`() throws {
        let query = try UserQuery("SELECT ha1 FROM t WHERE u = :user AND d = :domain AND (x = :user OR r = :realm)")
        var (sql, fields) = query.text(for: .postgreSQL)
        #expect(sql == "SELECT ha1 FROM t WHERE u = $1 AND d = $2 AND (x = $1 OR r = $3)")
        #expect(fields == [.user, .domain, .realm])
        (sql, fields) = query.text(for: .sqlite)
        #expect(sql == "SELECT ha1 FROM t WHERE u = ?1 AND d = ?2 AND (x = ?1 OR r = ?3)")
        (sql, fields) = query.text(for: .mariaDB)
        #expect(sql == "SELECT ha1 FROM t WHERE u = ? AND d = ? AND (x = ? OR r = ?)")
        #expect(fields == [.user, .domain, .user, .realm])
    }

    @Test(arguments: [
        "SELECT ':user', \"a:realm\", `:domain`, u::text, 1 /* :user ; */ FROM t -- :user\n WHERE u = :user",
        "SELECT 'it''s :user' FROM t WHERE u = :user",
    ])
    func `texts, comments and casts have no fields`(_ source: String) throws {
        let (sql, fields) = try UserQuery(source).text(for: .sqlite)
        #expect(fields == [.user])
        #expect(sql.hasSuffix("u = ?1") && sql.dropLast(2) == source.dropLast(5))
    }

    @Test(arguments: [
        ("SELECT ha1 FROM t", "expected :user in the query"),
        ("SELECT ha1 FROM t WHERE u = :name", ":name is no field; expected :user, :domain or :realm"),
        ("SELECT 1 WHERE 1 = :user; DROP TABLE t", "expected one query with :user, and without ;"),
        ("SELECT 1 FROM t WHERE u = ?", "expected one query with :user, and without ?"),
        (
            "kamailio",
            "expected a SELECT, or the name of a built-in query: asterisk-ps-auths, freepbx-sip, fusionpbx-extensions, kamailio-subscriber"
        ),
        ("SELECT 'open FROM t WHERE u = :user", "expected :user in the query"),
    ])
    func `a query that cannot work is refused`(_ source: String, _ complaint: String) {
        #expect(throws: SettingComplaint(complaint)) { try UserQuery(source) }
    }

    @Test(arguments: UserQuery.ready.keys.sorted())
    func `ready queries are queries`(_ name: String) throws {
        #expect(try UserQuery(name).text(for: .postgreSQL).fields.first == .user)
    }
}

@Suite struct `URLs of databases` {
    @Test(arguments: [
        ("sqlite:/var/lib/kamailio/kamailio.db", DatabaseURL.sqlite("/var/lib/kamailio/kamailio.db")),
        ("postgresql://u@h/d?sslmode=require", .postgreSQL("postgresql://u@h/d?sslmode=require")),
        ("mysql://u@h/d", .mariaDB(host: "h", port: 3306, user: "u", database: "d", socket: nil)),
        (
            "mariadb://u@[2001:db8::1]:3307/d",
            .mariaDB(host: "2001:db8::1", port: 3307, user: "u", database: "d", socket: nil)
        ),
        (
            "mysql://u@/d?socket=/run/s",
            .mariaDB(host: "localhost", port: 3306, user: "u", database: "d", socket: "/run/s")
        ),
    ])
    func `a database is found`(_ text: String, _ wanted: DatabaseURL) throws {
        #expect(try DatabaseURL(text) == wanted)
        #expect(try DatabaseURL(wanted.text) == wanted)
    }

    @Test(arguments: [
        "sqlite:relative.db", "oracle://x", "mysql://h/d", "mysql://u@h", "mysql://u@h:0/d", "mysql://u@h:x/d",
        "mysql://u@h/d?ssl=1", "postgresql://u:s3cret@h/d", "mysql://u:s3cret@h/d",
        "postgresql://u@h/d?password=s3cret",
    ])
    func `another URL is refused, and a password in it is not shown`(_ text: String) {
        let complaint = #expect(throws: SettingComplaint.self) { try DatabaseURL(text) }
        #expect(complaint?.sentence.contains("s3cret") == false)
    }
}

@Suite struct `Settings of users` {
    private func read(_ yaml: String) -> Result<UserSettings, SettingsError> {
        Result { () throws(SettingsError) in try UserSettings(yaml: Array(yaml.utf8), file: "f") }
    }

    @Test func `sources are asked in the order of the list`() throws {
        let settings = try read(
            """
            order: [b, a]
            sources:
                a: { database: "sqlite:/a.db", query: "SELECT ha1 FROM t WHERE u = :user" }
                b: { url: "https://h/x", algorithms: [SHA-256, MD5], domains: [Example.NET], parallel: 2 }
            """
        ).get()
        let rules = settings.rules
        #expect(rules.sources.map(\.name) == ["b", "a"])
        #expect(rules.algorithms == [.md5])
        #expect(rules.sources[0].domains.map(\.string) == ["example.net"] && rules.sources[0].parallel == 2)
    }

    @Test(arguments: [
        ("order: [x]", "x is not among sources"), ("order: [store]", "the store is always asked first"),
        ("sources: { a: {} }", "expected either database or url"),
        ("sources: { a: { url: \"https://h\", database: \"sqlite:/a\" } }", "expected either database or url"),
        ("sources: { a: { database: \"sqlite:/a\" } }", "expected query for the database"),
        ("sources: { a: { url: \"https://h\", query: freepbx-sip } }", "expected no query with url"),
        ("sources: { a: { url: \"ftp://h\" } }", "expected https://HOST/PATH"),
    ])
    func `settings that contradict each other are refused`(_ yaml: String, _ complaint: String) {
        guard case .failure(let error) = read(yaml) else {
            Issue.record("\(yaml) was taken")
            return
        }
        #expect(error.description.contains(complaint))
    }
}
