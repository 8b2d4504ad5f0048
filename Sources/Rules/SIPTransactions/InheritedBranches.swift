import Bytes

/// The branches of INVITEs that an earlier run of the program has sent, and that this one goes on with. Their hashes were
/// made with that run's key, so that they are looked up.
struct InheritedBranches: Sendable {
    private var clients: [ByteString: ClientTransactionID] = [:]
    private var branches: [ClientTransactionID: ByteString] = [:]

    var isEmpty: Bool { clients.isEmpty }

    /// In either case, since some peers fold it.
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
