import Storage
import Timekeeping

/// Registrations and clean-ups of devices as SQL.
extension Connection {
    func write(_ request: DeviceRequest) throws(SQLError) {
        let write = try statement(
            """
            INSERT INTO device_request (id, kind, app, user, platform, token, is_tracked, callback_url,
                callback_signature, callback_fields, accepted_at, failure) VALUES (?,?,?,?,?,?,?,?,?,?,?,'')
            """)
        write.bind(1, text: request.id.text)
        write.bind(2, text: request.kind.rawValue)
        write.bind(3, text: request.app)
        write.bind(4, text: request.user)
        write.bind(5, text: request.platform.rawValue)
        write.bind(6, text: request.token)
        write.bind(7, integer: request.isTracked ? 1 : 0)
        write.bind(8, text: request.callback?.url ?? "")
        write.bind(9, text: request.callback?.signature ?? "")
        write.bind(10, text: request.callback?.fields ?? "")
        write.bind(11, integer: request.acceptedAt.milliseconds)
        try write.run()
    }

    /// What nobody can ask for goes; of the rest only the outcome stays.
    func finish(_ request: DeviceRequest, _ outcome: DeviceOutcome, at date: UnixTime) throws(SQLError) {
        guard request.isTracked else {
            let delete = try statement("DELETE FROM device_request WHERE id = ?")
            delete.bind(1, text: request.id.text)
            return try delete.run()
        }
        let write = try statement(
            """
            UPDATE device_request SET finished_at = ?, failure = ?, user = '', token = '', callback_url = '',
                callback_signature = '', callback_fields = '' WHERE id = ?
            """)
        write.bind(1, integer: date.milliseconds)
        var failure = ""
        if case .failed(let reason) = outcome { failure = reason.rawValue }
        write.bind(2, text: failure)
        write.bind(3, text: request.id.text)
        try write.run()
    }

    func pruneDeviceRequests(before date: UnixTime, keeping count: Int) throws(SQLError) {
        let delete = try statement(
            """
            DELETE FROM device_request WHERE finished_at IS NOT NULL AND (finished_at < ?
            OR number <= (SELECT number FROM device_request ORDER BY number DESC LIMIT 1 OFFSET ?))
            """)
        delete.bind(1, integer: date.milliseconds)
        delete.bind(2, integer: Int64(count))
        try delete.run()
    }

    func writeMobileDevice(_ request: DeviceRequest) throws(SQLError) {
        let write = try statement("INSERT OR REPLACE INTO mobile_device VALUES (?,?,?)")
        write.bind(1, text: request.app)
        write.bind(2, text: request.user)
        write.bind(3, text: request.token)
        try write.run()
    }

    func forgetMobileDevices(_ request: DeviceRequest) throws(SQLError) {
        let delete = try statement(
            "DELETE FROM mobile_device WHERE app = ?1 AND user = ?2 AND (?3 = '' OR token = ?3)")
        delete.bind(1, text: request.app)
        delete.bind(2, text: request.user)
        delete.bind(3, text: request.token)
        try delete.run()
    }

    /// Tokens that an app has registered for a user: all, or the one if it is there.
    func mobileDevices(of user: String, app: String, token: String?) throws(SQLError) -> [String] {
        let rows = try statement(
            "SELECT token FROM mobile_device WHERE app = ?1 AND user = ?2 AND (?3 = '' OR token = ?3)")
        rows.bind(1, text: app)
        rows.bind(2, text: user)
        rows.bind(3, text: token ?? "")
        return try values(of: rows) { $0.text(0) }
    }

    /// Pending for all that is not known to have ended.
    func deviceOutcome(of id: RequestID, app: String) throws(SQLError) -> DeviceOutcome {
        let rows = try statement(
            """
            SELECT failure FROM device_request
            WHERE id = ? AND app = ? AND is_tracked = 1 AND finished_at IS NOT NULL
            """)
        rows.bind(1, text: id.text)
        rows.bind(2, text: app)
        let outcomes = try values(of: rows) { rows -> DeviceOutcome? in
            DeviceFailure(rawValue: rows.text(0)).map { .failed($0) } ?? .success
        }
        return outcomes.first ?? .pending
    }

    /// Those that are not done, in their order.
    func openDeviceRequests() throws(SQLError) -> [DeviceRequest] {
        let rows = try statement("SELECT * FROM device_request WHERE finished_at IS NULL ORDER BY number")
        return try values(of: rows) { $0.storedDeviceRequest }
    }
}

extension Statement {
    /// `nil` for a row that nobody of ours has written.
    fileprivate var storedDeviceRequest: DeviceRequest? {
        guard let id = RequestID(text(1)), let kind = DeviceRequest.Kind(rawValue: text(2)),
            let platform = DeviceRequest.Platform(rawValue: text(5))
        else { return nil }
        let url = text(8)
        return DeviceRequest(
            id: id, kind: kind, app: text(3), user: text(4), platform: platform, token: text(6),
            isTracked: integer(7) != 0,
            callback: url.isEmpty ? nil : DeviceCallback(url: url, signature: text(9), fields: text(10)),
            acceptedAt: UnixTime(milliseconds: integer(11)))
    }
}
