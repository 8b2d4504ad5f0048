import Bytes

/// The branches of INVITEs that an earlier run of the program sent and this run resumes. Their hashes were made with
/// that run's key, so they are looked up in a table.
struct InheritedBranches: Sendable {
    private var clients: [ByteString: ClientTransactionID] = [:]
    private var branches: [ClientTransactionID: ByteString] = [:]

    var isEmpty: Bool { clients.isEmpty }

    /// In either case, because some peers fold it.
    subscript(branch: ByteString) -> ClientTransactionID? { clients[branch.lowercased()] }

    mutating func add(_ branch: ByteString, _ client: ClientTransactionID) {
        let branch = branch.lowercased()
        clients[branch] = client
        branches[client] = branch
    }

    mutating func remove(_ client: ClientTransactionID) {
        if let branch = branches.removeValue(forKey: client) { clients[branch] = nil }
    }
}
