import Bytes

/// The Via branches of INVITEs that the daemon's earlier run sent and this run resumes. The branches need a table,
/// because the key with which the daemon's earlier run made them is lost.
struct InheritedBranches: Sendable {
    private var clients: [ByteString: ClientTransactionID] = [:]
    private var branches: [ClientTransactionID: ByteString] = [:]

    var isEmpty: Bool { clients.isEmpty }

    /// The client transaction of a branch. Via branches that differ only in upper and lower case are equal, because
    /// some peers change the case.
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
