import Bytes
import Calling
import PostgreSQLClient
import PushDelivery
import Registration
import Timekeeping

/// The SQL statements for users, their rules and links, and providers that are switched off.
extension PostgreSQLTables {
    func write(_ user: DigestUser) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO account VALUES ($1,$2,$3,$4,$5)
            ON CONFLICT (realm, name) DO UPDATE SET ha1_md5 = $3, ha1_sha256 = $4, ha1_sha512_256 = $5
            """, user.name, user.realm, user.ha1[.md5], user.ha1[.sha256], user.ha1[.sha512_256])
    }

    func removeUser(_ name: ByteString, realm: ByteString) throws(PostgreSQLError) {
        try send("DELETE FROM account WHERE realm = $1 AND name = $2", realm, name)
    }

    /// Returns all users. Each query reads some users, because a result is in memory as a whole.
    func users() throws -> [DigestUser] {
        var all: [DigestUser] = []
        while true {
            let (realm, name) = (all.last?.realm ?? .empty, all.last?.name ?? .empty)
            let page = try users(after: name, in: realm, limit: Self.usersInTurn)
            all += page
            if page.count < Self.usersInTurn { return all }
        }
    }

    private static let usersInTurn = 10_000

    func users(after name: ByteString, in realm: ByteString, limit: Int) throws -> [DigestUser] {
        try rows(
            "SELECT \(Columns.account) FROM account WHERE (realm, name) > ($1, $2) ORDER BY realm, name LIMIT $3",
            realm, name, limit
        ).values { $0.storedUser }
    }

    func userNames(
        after name: ByteString, in realm: ByteString, limit: Int, of realms: [ByteString]?
    ) throws -> [String] {
        try rows(
            """
            SELECT name, realm FROM account WHERE (realm, name) > ($1, $2) AND \(DomainArray.contains("realm", 4))
            ORDER BY realm, name LIMIT $3
            """, realm, name, limit, realms.map(DomainArray.init)
        ).values { "\($0.text(0))@\($0.text(1))" }
    }

    func writeSwitch(_ provider: PushProvider, _ state: ProviderState) throws(PostgreSQLError) {
        try send(
            "INSERT INTO provider_switch VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET enabled = $2",
            provider.rawValue, state.column)
    }

    func providers(_ state: ProviderState) throws -> [PushProvider] {
        try rows("SELECT name FROM provider_switch WHERE enabled = $1", state.column).values {
            PushProvider(rawValue: $0.text(0))
        }
    }

    // MARK: Rules

    func write(_ row: StoredUserRules) throws(PostgreSQLError) {
        try send(
            "INSERT INTO user_rules VALUES ($1,$2,$3) ON CONFLICT (domain, username) DO UPDATE SET rules = $3",
            row.aor.user, row.aor.host, row.text)
    }

    func removeRules(of aor: AddressOfRecord) throws(PostgreSQLError) {
        try send("DELETE FROM user_rules WHERE domain = $1 AND username = $2", aor.host, aor.user)
    }

    func userRules() throws -> [StoredUserRules] {
        try rows("SELECT \(Columns.userRules) FROM user_rules").values { $0.storedUserRules }
    }

    func userRules(of aor: AddressOfRecord) throws -> StoredUserRules? {
        try rows("SELECT \(Columns.userRules) FROM user_rules WHERE domain = $1 AND username = $2", aor.host, aor.user)
            .values { $0.storedUserRules }.first
    }

    // MARK: Links with which phones take accounts

    /// Writes a new link. The user's earlier link, if it is unused, ends.
    func write(_ link: StoredProvisionLink) throws(PostgreSQLError) {
        try removeProvisionLinks(of: link.name, realm: link.realm)
        try send("DELETE FROM provision_link WHERE hash = $1", ByteString(Hex.encode(link.hash)))
        try send(
            "INSERT INTO provision_link VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)",
            ByteString(Hex.encode(link.hash)), link.name, link.realm, link.domain, link.createdAt, link.expiresAt,
            link.setsPassword, link.creator, link.usedAt ?? UnixTime(milliseconds: 0), link.usedFrom)
    }

    func removeProvisionLinks(of name: ByteString, realm: ByteString) throws(PostgreSQLError) {
        try send("DELETE FROM provision_link WHERE realm = $1 AND name = $2 AND used_at = 0", realm, name)
    }

    /// Notes that a phone uses the link, and writes the user's new password in the same statement.
    ///
    /// - Returns: the statement's number; the statement changes no row if the link was not there, used or expired.
    func apply(_ use: ProvisionLinkUse) throws(PostgreSQLError) -> Int {
        let hash = ByteString(Hex.encode(use.hash))
        guard let user = use.user else {
            return try send(
                "UPDATE provision_link SET used_at = $1, used_from = $2 WHERE hash = $3 AND used_at = 0 AND expires_at > $1",
                use.date, use.source, hash)
        }
        return try send(
            """
            WITH used AS (
                UPDATE provision_link SET used_at = $1, used_from = $2
                WHERE hash = $3 AND used_at = 0 AND expires_at > $1 RETURNING hash)
            INSERT INTO account SELECT $4::bytea, $5::bytea, $6::bytea, $7::bytea, $8::bytea FROM used
            ON CONFLICT (realm, name) DO UPDATE SET ha1_md5 = $6, ha1_sha256 = $7, ha1_sha512_256 = $8
            """, use.date, use.source, hash, user.name, user.realm, user.ha1[.md5], user.ha1[.sha256],
            user.ha1[.sha512_256])
    }

    func pruneProvisionLinks(at date: UnixTime, usedBefore: UnixTime, keeping: Int) throws(PostgreSQLError) {
        try send("DELETE FROM provision_link WHERE used_at = 0 AND expires_at <= $1", date)
        try send("DELETE FROM provision_link WHERE used_at > 0 AND used_at < $1", usedBefore)
        try send(
            """
            DELETE FROM provision_link WHERE used_at > 0 AND hash NOT IN (
                SELECT hash FROM provision_link WHERE used_at > 0 ORDER BY used_at DESC LIMIT $1)
            """, keeping)
    }

    func provisionLinks() throws -> [StoredProvisionLink] {
        try rows("SELECT \(Columns.provisionLink) FROM provision_link").values { $0.storedProvisionLink }
    }
}
