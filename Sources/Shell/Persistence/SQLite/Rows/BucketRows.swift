import Addressing
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Storage
import Timekeeping

/// The SQL statements for missed calls.
extension Connection {
    func write(_ entry: BucketEntry, of aor: AddressOfRecord) throws(SQLError) {
        try run("INSERT OR REPLACE INTO bucket_entry VALUES (?,?,?,?,?,?,?,?,?)") { entry.add(of: aor, to: &$0) }
    }

    /// Writes missed calls that were journaled but not stored before the restart.
    func write(_ changes: [StoredBucketChange]) throws(SQLError) {
        try transaction { () throws(SQLError) in
            for change in changes { _ = try apply(.engine(.bucket(change))) }
        }
    }

    func removeBucketEntry(_ callRef: CallRef) throws(SQLError) {
        try run("DELETE FROM bucket_entry WHERE call_ref = ?", callRef.rawValue)
    }

    func bucketEntries() throws(SQLError) -> [StoredBucketEntry] {
        try values(of: try statement("SELECT * FROM bucket_entry")) { $0.storedBucketEntry }
    }
}
