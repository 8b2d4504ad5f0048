import Addressing
import Messaging
import PostgreSQLClient
import ProxyCore
import Registration

/// New rows of failed commits whose requesters were told that nothing is stored. The server may have committed the rows,
/// because a connection can break between the commit and its confirmation.
///
/// The rows are removed before anything else is written. Otherwise, a phone that registers again would have two contacts
/// after a restart, and a message that its sender repeats would be delivered twice.
struct UnconfirmedRows {
    /// The highest number of a confirmed binding. A binding with a higher number is new.
    var highest: Int64 = 0
    private var bindings: [StoredBinding] = []
    private var messages: [Int64] = []
    /// The maximum number of rows; the queue of the writer has no more changes.
    private static let limit = 50_000

    mutating func confirmed(_ batch: StoreIntake.Batch) {
        removed()
        for entry in batch.entries {
            for case .engine(.binding(.upsert(let row))) in entry.changes {
                highest = max(highest, Int64(bitPattern: row.id.rawValue))
            }
        }
    }

    mutating func failed(_ batch: StoreIntake.Batch) {
        for entry in batch.entries where entry.ticket != nil && bindings.count + messages.count < Self.limit {
            for change in entry.changes {
                switch change {
                case .engine(.binding(.upsert(let row))) where Int64(bitPattern: row.id.rawValue) > highest:
                    bindings.append(row)
                case .engine(.message(.insert(let message))): messages.append(Int64(bitPattern: message.id))
                default: break
                }
            }
        }
    }

    func remove(from tables: PostgreSQLTables) throws(PostgreSQLError) {
        for row in bindings {
            // A later REGISTER of the phone, perhaps at another node, has found the row and has confirmed it.
            try tables.send(
                "DELETE FROM binding WHERE id = $1 AND registered_at = $2 AND cseq = $3", row.id, row.registeredAt,
                row.cseq)
        }
        for id in messages { try tables.send("DELETE FROM message WHERE id = $1", id) }
    }

    mutating func removed() {
        bindings.removeAll()
        messages.removeAll()
    }
}
