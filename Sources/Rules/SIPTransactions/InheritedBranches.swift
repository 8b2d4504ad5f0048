import Bytes

/// The Via branches of INVITEs that were sent before a restart and are resumed. The branches need a table, because the
/// restart lost the key by which they were made.
struct InheritedBranches: Sendable {
    private var clients: [ByteString: ClientTransactionID] = [:]
    private var branches: [ClientTransactionID: ByteString] = [:]

    var isEmpty: Bool { clients.isEmpty }

    /// The client transaction of a branch; the branch may be in upper or lower case, because some peers change the
    /// case.
    subscript(branch: ByteString) -> ClientTransactionID? { clients[branch.lowercased()] }

    func has(_ client: ClientTransactionID) -> Bool { branches[client] != nil }

    mutating func add(_ branch: ByteString, _ client: ClientTransactionID) {
        let branch = branch.lowercased()
        clients[branch] = client
        branches[client] = branch
    }

    mutating func remove(_ client: ClientTransactionID) {
        if let branch = branches.removeValue(forKey: client) { clients[branch] = nil }
    }
}
