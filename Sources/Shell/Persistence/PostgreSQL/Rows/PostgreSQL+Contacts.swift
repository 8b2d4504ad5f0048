import Addressing
import Bytes
import Messaging
import PostgreSQLClient
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Timekeeping

/// The SQL statements for bindings, missed calls and messages.
extension PostgreSQLTables {
    func write(_ row: StoredBinding) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO binding VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,coalesce($15::bytea, ''),$16,$17)
            ON CONFLICT (id) DO UPDATE SET username = $2, domain = $3, contact = $4, call_id = $5, cseq = $6, path = $7,
                transport = $8, listener = $9, remote = $10, granted = $11, fresh_until = $12, registered_at = $13,
                is_push = $14, user_agent = coalesce($15::bytea, binding.user_agent), nonce = $16, nonce_count = $17
            """
        ) { row.add(to: &$0) }
    }

    /// Writes the values that a refresh changes, if the binding's row still exists. A row of a later REGISTER stays,
    /// because the device has registered at another node since.
    func refresh(_ row: StoredBinding) throws(PostgreSQLError) {
        try send(
            """
            UPDATE binding SET call_id = $1, cseq = $2, granted = $3, fresh_until = $4, registered_at = $5,
                user_agent = coalesce($6, user_agent) WHERE id = $7 AND registered_at <= $5
            """
        ) { row.addRefreshed(to: &$0) }
    }

    func removeBinding(_ id: DeviceID) throws(PostgreSQLError) { try send("DELETE FROM binding WHERE id = $1", id) }

    func removeBinding(_ id: DeviceID, contact: ByteString) throws(PostgreSQLError) {
        try send("DELETE FROM binding WHERE id = $1 AND contact = $2", id, contact)
    }

    func removeBinding(_ id: DeviceID, registeredAt date: UnixTime) throws(PostgreSQLError) {
        try send("DELETE FROM binding WHERE id = $1 AND registered_at = $2", id, date)
    }

    func userAgents(of devices: [DeviceID]) throws -> [DeviceID: ByteString] {
        var found: [DeviceID: ByteString] = [:]
        for device in devices {
            let rows = try rows("SELECT user_agent FROM binding WHERE id = $1 AND user_agent != ''", device)
            found[device] = rows.values { $0.byteString(0) }.first
        }
        return found
    }

    func bindings(after device: DeviceID?, limit: Int) throws -> [StoredBinding] {
        // The first page begins at the lowest number, because a number from 2^63 on is negative in SQL.
        var last = device.map { Int64(bitPattern: $0.rawValue) }
        while true {
            let rows =
                if let last {
                    try rows("SELECT \(Columns.binding) FROM binding WHERE id > $1 ORDER BY id LIMIT $2", last, limit)
                } else {
                    try rows("SELECT \(Columns.binding) FROM binding ORDER BY id LIMIT $1", limit)
                }
            // The bindings of a page share one block of memory; the block is freed together with the page's last binding.
            var texts = ByteStringWriter(capacity: 1 << 16)
            let found = rows.values { $0.storedBinding(&texts) }
            // A page of malformed rows must not look like the end.
            guard found.isEmpty, rows.count > 0 else { return found }
            last = rows[rows.count - 1].integer(0)
        }
    }

    // MARK: Missed calls

    /// Writes a missed call. Two nodes may tell two devices of the same call at the same time, so the devices that have
    /// learnt of the call are those of both rows. If no other device is left, the row is deleted.
    func write(_ entry: BucketEntry, of aor: AddressOfRecord) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO bucket_entry VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9)
            ON CONFLICT (call_ref) DO UPDATE SET username = $2, domain = $3, caller = $4, date = $5,
                devices = (SELECT coalesce(string_agg(device, ','), '') FROM unnest(string_to_array($6, ',')) AS device
                    WHERE device <> ALL (string_to_array(bucket_entry.told, ','))),
                is_over = $7,
                told = (SELECT coalesce(string_agg(DISTINCT device, ','), '')
                    FROM unnest(string_to_array(bucket_entry.told, ',') || string_to_array($8, ',')) AS device),
                brought_by = $9
            """
        ) { entry.add(of: aor, to: &$0) }
        try send("DELETE FROM bucket_entry WHERE call_ref = $1 AND devices = ''", entry.callRef.rawValue)
    }

    func removeBucketEntry(_ callRef: CallRef) throws(PostgreSQLError) {
        try send("DELETE FROM bucket_entry WHERE call_ref = $1", callRef.rawValue)
    }

    func bucketEntries() throws -> [StoredBucketEntry] {
        try rows("SELECT \(Columns.bucketEntry) FROM bucket_entry").values { $0.storedBucketEntry }
    }

    // MARK: Messages

    func write(_ message: StoredMessage) throws(PostgreSQLError) {
        try send(
            """
            INSERT INTO message VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)
            ON CONFLICT (id) DO UPDATE SET username = $2, domain = $3, sender = $4, transport = $5, listener = $6,
                remote = $7, received_at = $8, expires_at = $9, devices = $10, request = $11
            """
        ) { message.add(to: &$0) }
    }

    func writeDevices(_ devices: [DeviceID], ofMessage id: UInt64) throws(PostgreSQLError) {
        try send("UPDATE message SET devices = $1 WHERE id = $2", DeviceNumbers(devices: devices), id)
    }

    func removeMessage(_ id: UInt64) throws(PostgreSQLError) { try send("DELETE FROM message WHERE id = $1", id) }

    func messages() throws -> [StoredMessage] {
        try rows("SELECT \(Columns.message) FROM message ORDER BY id").values { $0.storedMessage }
    }
}
