/// A table of the store that operators change, and that each daemon keeps in memory.
package enum OperatorTable: String, CaseIterable, Sendable {
    case keys = "api-keys"
    case apps
    case links = "provisioning-links"
    case providers
}

extension ServiceChange {
    /// The table that the change may alter, and that other nodes must then read again.
    var operatorTable: OperatorTable? {
        switch self {
        case .addKey, .removeKey: .keys
        case .addApp, .removeApp: .apps
        case .switchProvider: .providers
        // The link of a user ends with the user and with the user's password.
        case .addProvisionLink, .useProvisionLink, .removeProvisionLinks, .addUser, .removeUser: .links
        case .setRules, .removeRules, .pruneProvisionLinks, .forgetMissedCalls, .forgetMessages, .pruneDeadTokens,
            .pushMark, .allPushesRead, .deviceRequest, .deviceRequestFinished, .pruneDeviceRequests, .mobileDevice,
            .forgetMobileDevices, .note, .addSecret, .removeSecret, .pruneDialogRenewals:
            nil
        }
    }
}

extension RowChange {
    var operatorTable: OperatorTable? { if case .service(let change) = self { change.operatorTable } else { nil } }
}

/// Compares the revisions of the tables in the database with the revisions that a node has seen, and finds the tables
/// that the node must read again.
///
/// A transaction that changes a table raises the table's revision. So a node that sees a new revision and then reads the
/// table gets the change, and the changes of all earlier revisions.
struct SeenRevisions {
    /// The last seen revision of each table; `nil` if the node may have missed revisions.
    private var seen: [String: Int64]?

    /// Returns the tables that have changed since the last call. After ``forget()`` and at the start, all tables count as
    /// changed.
    mutating func changed(in found: [(table: String, revision: Int64)]) -> Set<OperatorTable> {
        let revisions = Dictionary(found.map { ($0.table, $0.revision) }) { max($0, $1) }
        defer { seen = revisions }
        guard let seen else { return Set(OperatorTable.allCases) }
        return Set(OperatorTable.allCases.filter { revisions[$0.rawValue] != seen[$0.rawValue] })
    }

    /// Notes that another server may have taken the place of the database. Its revisions may be older.
    mutating func forget() { seen = nil }
}
