import Storage
import Timekeeping

/// The SQL statements for registrations and clean-ups of devices.
extension Connection {
    func write(_ request: DeviceRequest) throws(SQLError) {
        try run(
            """
            INSERT INTO device_request (id, kind, app, user, platform, token, is_tracked, callback_url,
                callback_signature, callback_fields, accepted_at, failure) VALUES (?,?,?,?,?,?,?,?,?,?,?,'')
            """, request.id.text, request.kind.rawValue, request.app, request.user, request.platform.rawValue,
            request.token, request.isTracked, request.callback?.url ?? "", request.callback?.signature ?? "",
            request.callback?.fields ?? "", request.acceptedAt)
    }

    /// Records the end of a device request: keeps only the outcome of a tracked request, and deletes any other request.
    func finish(_ request: DeviceRequest, _ outcome: DeviceOutcome, at date: UnixTime) throws(SQLError) {
        guard request.isTracked else { return try run("DELETE FROM device_request WHERE id = ?", request.id.text) }
        var failure = ""
        if case .failed(let reason) = outcome { failure = reason.rawValue }
        try run(
            """
            UPDATE device_request SET finished_at = ?, failure = ?, user = '', token = '', callback_url = '',
                callback_signature = '', callback_fields = '' WHERE id = ?
            """, date, failure, request.id.text)
    }

    func pruneDeviceRequests(before date: UnixTime, keeping count: Int) throws(SQLError) {
        try run(
            """
            DELETE FROM device_request WHERE finished_at IS NOT NULL AND (finished_at < ?
            OR number <= (SELECT number FROM device_request ORDER BY number DESC LIMIT 1 OFFSET ?))
            """, date, count)
    }

    func writeMobileDevice(_ request: DeviceRequest) throws(SQLError) {
        try run("INSERT OR REPLACE INTO mobile_device VALUES (?,?,?)", request.app, request.user, request.token)
    }

    func forgetMobileDevices(_ request: DeviceRequest) throws(SQLError) {
        try run(
            "DELETE FROM mobile_device WHERE app = ?1 AND user = ?2 AND (?3 = '' OR token = ?3)", request.app,
            request.user, request.token)
    }

    /// Returns the tokens that an app registered for a user; if `token` is not `nil`, returns only this token.
    func mobileDevices(of user: String, app: String, token: String?) throws(SQLError) -> [String] {
        let rows = try statement(
            "SELECT token FROM mobile_device WHERE app = ?1 AND user = ?2 AND (?3 = '' OR token = ?3)", with: app, user,
            token ?? "")
        return try values(of: rows) { $0.text(0) }
    }

    /// Returns the apps that registered a token, without regard to upper and lower case in the token.
    func mobileOwners(of token: String) throws(SQLError) -> [MobileOwner] {
        let rows = try statement("SELECT app, user FROM mobile_device WHERE token = ? COLLATE NOCASE", with: token)
        return try values(of: rows) { MobileOwner(app: $0.text(0), user: $0.text(1)) }
    }

    /// Returns the outcome of a device request. A device request that is unknown or unfinished is treated as pending.
    func deviceOutcome(of id: RequestID, app: String) throws(SQLError) -> DeviceOutcome {
        let rows = try statement(
            """
            SELECT failure FROM device_request
            WHERE id = ? AND app = ? AND is_tracked = 1 AND finished_at IS NOT NULL
            """, with: id.text, app)
        let outcomes = try values(of: rows) { rows -> DeviceOutcome? in
            DeviceFailure(rawValue: rows.text(0)).map { .failed($0) } ?? .success
        }
        return outcomes.first ?? .pending
    }

    /// Returns the device requests that are not finished, in the order of their arrival.
    func openDeviceRequests() throws(SQLError) -> [DeviceRequest] {
        let rows = try statement("SELECT * FROM device_request WHERE finished_at IS NULL ORDER BY number")
        return try values(of: rows) { $0.storedDeviceRequest }
    }
}
