import Bytes
import Collections
import PostgreSQLClient
import PushDelivery
import Timekeeping

/// The SQL statements of the services: keys, mobile apps, device requests, dead tokens, secrets and notes.
extension PostgreSQLTables {
    /// Adds a key, unless another node has just added a key with the same name. Then the statement changes no row.
    func write(_ key: StoredKey) throws(PostgreSQLError) -> Int {
        try send(
            "INSERT INTO api_key VALUES ($1,$2,$3,$4,$5) ON CONFLICT DO NOTHING", key.name,
            ByteString(Hex.encode(key.hash)), key.scopes, key.createdAt, key.domains)
    }

    func removeKey(_ name: String) throws(PostgreSQLError) { try send("DELETE FROM api_key WHERE name = $1", name) }

    func keys() throws -> [StoredKey] { try rows("SELECT \(Columns.apiKey) FROM api_key").values { $0.storedKey } }

    /// Adds an app, unless another node has just added an app with the same name or id. Then the statement changes no row.
    func write(_ app: StoredMobileApp) throws(PostgreSQLError) -> Int {
        try send(
            "INSERT INTO mobile_app VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9) ON CONFLICT DO NOTHING", app.name, app.id,
            app.organisation, ByteString(Hex.encode(app.tokenHash)), app.user, app.appleProvider, app.appleParam,
            app.googleParam, app.createdAt)
    }

    func removeApp(_ name: String) throws(PostgreSQLError) { try send("DELETE FROM mobile_app WHERE name = $1", name) }

    func mobileApps() throws -> [StoredMobileApp] {
        try rows("SELECT \(Columns.mobileApp) FROM mobile_app").values { $0.storedMobileApp }
    }

    // MARK: Registrations and clean-ups of devices

    func write(_ request: DeviceRequest) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO device_request (id, kind, app, username, platform, token, is_tracked, callback_url,
                callback_signature, callback_fields, accepted_at, failure)
            VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,'')
            """, request.id.text, request.kind.rawValue, request.app, request.user, request.platform.rawValue,
            request.token, request.isTracked, request.callback?.url ?? "", request.callback?.signature ?? "",
            request.callback?.fields ?? "", request.acceptedAt)
    }

    /// Records the end of a device request: keeps only the outcome of a tracked request, and deletes any other request.
    func finish(_ request: DeviceRequest, _ outcome: DeviceOutcome, at date: UnixTime) throws(PostgreSQLError) {
        guard request.isTracked else {
            try send("DELETE FROM device_request WHERE id = $1", request.id.text)
            return
        }
        var failure = ""
        if case .failed(let reason) = outcome { failure = reason.rawValue }
        try send(
            """
            UPDATE device_request SET finished_at = $1, failure = $2, username = '', token = '', callback_url = '',
                callback_signature = '', callback_fields = '' WHERE id = $3
            """, date, failure, request.id.text)
    }

    func pruneDeviceRequests(before date: UnixTime, keeping count: Int) throws(PostgreSQLError) {
        try send(
            """
            DELETE FROM device_request WHERE finished_at IS NOT NULL AND (finished_at < $1
            OR number <= (SELECT number FROM device_request ORDER BY number DESC LIMIT 1 OFFSET $2))
            """, date, count)
    }

    func writeMobileDevice(_ request: DeviceRequest) throws(PostgreSQLError) {
        try send(
            "INSERT INTO mobile_device VALUES ($1,$2,$3) ON CONFLICT DO NOTHING", request.app, request.user,
            request.token)
    }

    func forgetMobileDevices(_ request: DeviceRequest) throws(PostgreSQLError) {
        try send(
            "DELETE FROM mobile_device WHERE app = $1 AND username = $2 AND ($3 = '' OR token = $3)", request.app,
            request.user, request.token)
    }

    func mobileDevices(of user: String, app: String, token: String?) throws -> [String] {
        try rows(
            "SELECT token FROM mobile_device WHERE app = $1 AND username = $2 AND ($3 = '' OR token = $3) ORDER BY token",
            app, user, token ?? ""
        ).values { $0.text(0) }
    }

    /// Returns the apps that registered a token, without regard to upper and lower case of ASCII letters in the token.
    func mobileOwners(of token: String) throws -> [MobileOwner] {
        try rows("SELECT app, username FROM mobile_device WHERE lower(token) = lower($1::text COLLATE \"C\")", token)
            .values { MobileOwner(app: $0.text(0), user: $0.text(1)) }
    }

    func deviceOutcome(of id: RequestID, app: String) throws -> DeviceOutcome {
        let rows = try rows(
            """
            SELECT failure FROM device_request
            WHERE id = $1 AND app = $2 AND is_tracked = 1 AND finished_at IS NOT NULL
            """, id.text, app)
        let outcomes = rows.values { rows -> DeviceOutcome? in
            DeviceFailure(rawValue: rows.text(0)).map { .failed($0) } ?? .success
        }
        return outcomes.first ?? .pending
    }

    func openDeviceRequests() throws -> [DeviceRequest] {
        try rows("SELECT \(Columns.deviceRequest) FROM device_request WHERE finished_at IS NULL ORDER BY number").values
        {
            $0.storedDeviceRequest
        }
    }

    // MARK: Dead tokens

    func write(_ dead: DeadToken) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO dead_token (recorded_at, since, provider, param, token, source, domain)
            VALUES ($1,$2,$3,$4,$5,$6,$7)
            """, dead.recordedAt, dead.since, dead.token.provider.rawValue, dead.token.param, dead.token.prid,
            dead.source.rawValue, dead.domain)
    }

    func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int, in domains: [ByteString]?
    ) throws -> Page<DeadToken> {
        try rows(
            """
            SELECT \(Columns.deadToken) FROM dead_token WHERE id > $1 AND recorded_at >= $2 AND \(DomainArray.contains("domain", 3))
            ORDER BY id LIMIT $4
            """, Int64(clamping: cursor.number), date, domains.map(DomainArray.init), limit + 1
        ).page(limit: limit) { $0.storedDeadToken }
    }

    func pruneDeadTokens(before date: UnixTime, keeping count: Int) throws(PostgreSQLError) {
        try send(
            """
            DELETE FROM dead_token WHERE recorded_at < $1
            OR id <= (SELECT id FROM dead_token ORDER BY id DESC LIMIT 1 OFFSET $2)
            """, date, count)
    }

    // MARK: Secrets, notes and dialogs

    /// Writes a secret, unless another node has written a secret with the same name in the same minute. All nodes must
    /// use the same secret.
    func write(_ secret: StoredSecret) throws(PostgreSQLError) {
        try send("SELECT pg_advisory_xact_lock(hashtextextended('sippushd secrets', 0))::text")
        try send(
            """
            INSERT INTO secret SELECT $1::text, $2::bigint, $3::bytea WHERE NOT EXISTS (
                SELECT 1 FROM secret WHERE name = $1::text AND abs(created_at - $2) < 60000)
            ON CONFLICT (name, created_at) DO NOTHING
            """, secret.name, secret.createdAt, secret.value)
    }

    func removeSecret(_ name: String, createdAt date: UnixTime) throws(PostgreSQLError) {
        try send("DELETE FROM secret WHERE name = $1 AND created_at = $2", name, date)
    }

    func secrets(named name: String) throws -> [StoredSecret] {
        try rows("SELECT created_at, value FROM secret WHERE name = $1 ORDER BY created_at DESC", name).values {
            $0.storedSecret(named: name)
        }
    }

    func writeNote(_ key: String, _ value: String) throws(PostgreSQLError) {
        try send("INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = $2", key, value)
    }

    func note(_ key: String) throws -> String? { try storedNote(key) }

    func storedNote(_ key: String) throws(PostgreSQLError) -> String? {
        try rows("SELECT value FROM meta WHERE key = $1", key).values { $0.text(0) }.first
    }

    /// Writes the end of a dialog's lifetime, unless the row already has a later end.
    func write(_ renewal: DialogRenewal) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO dialog_renewal VALUES ($1,$2)
            ON CONFLICT (digest) DO UPDATE SET until = greatest(dialog_renewal.until, $2)
            """, renewal.digestBytes, renewal.until)
    }

    func pruneDialogRenewals(before date: UnixTime) throws(PostgreSQLError) {
        try send("DELETE FROM dialog_renewal WHERE until < $1", date)
    }

    func dialogRenewals(after date: UnixTime) throws -> [DialogRenewal] {
        try rows("SELECT digest, until FROM dialog_renewal WHERE until >= $1", date).values { $0.storedDialogRenewal }
    }
}
