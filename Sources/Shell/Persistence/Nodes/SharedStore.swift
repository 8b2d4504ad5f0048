package import Bytes
package import Calling
package import Messaging
package import ProxyCore
package import ProxyPolicy
package import Registration
package import Routing
package import Timekeeping

/// News for a node about the other nodes.
package enum NodeNews: Sendable {
    /// All other nodes that are alive.
    case peers([PeerNode])
    /// The INVITEs of an ended node. This node alone continues their calls.
    case invites([HeldInvite])
    /// The stored messages of this node's earlier runs and of ended nodes, with which this node alone goes on; and their
    /// recipients.
    case messages([StoredMessage], StoredUsers)
    /// The tables that operators may have changed at any node, and that this node must read again.
    case changed(Set<OperatorTable>)
    /// Another node has taken over what waited at this node. The store still has the given INVITEs for this node.
    case takenOver(remaining: Set<HeldCallKey>)
    /// The events that other nodes have counted for limits.
    case counts([SharedCount])
    /// This node has given a sign of life, and may now tell its counts.
    case alive
    /// Whether this node has the duties that one node does for all nodes.
    case duties(isHeld: Bool)
}

/// The store as the nodes of a cluster share it. Each node reads a user from the store when a request needs the user.
package protocol SharedStore: AnyObject, Sendable {
    /// The number of this node's run, which no other run of any node has.
    var run: UInt32 { get }
    /// Reads users, with all changes that this node has ordered before.
    ///
    /// - Parameters:
    ///   - subjects: the users.
    ///   - waiting: the announcement of the request that waits at this node. The store commits the announcement before
    ///     it reads the users.
    ///   - answer: gets the users on any thread; `nil` if the store does not answer.
    func read(
        _ subjects: [UserSubject], waiting: Announcement?, answer: @escaping @Sendable (StoredUsers?) -> Void)
    /// Finds the other nodes at which something waits for phones of a user; `answer` gets their names, on any thread.
    func nodes(waitingFor aor: AddressOfRecord, answer: @escaping @Sendable ([String]) -> Void)
    /// Searches one page of all contacts. `answer` gets the page on any thread; `nil` if the store does not answer.
    func contacts(_ question: ContactSearch.Question, answer: @escaping @Sendable (ContactPage?) -> Void)
    /// Deletes soon that something waits for phones of the users at this node.
    func endWaiting(_ users: [AddressOfRecord])
    /// Deletes soon that an INVITE waits for phones of a user at this node.
    func endInvite(_ aor: AddressOfRecord, callID: ByteString)
    /// Tells the other nodes soon the events that this node has counted for limits.
    func tell(_ counts: [SharedCount])
    /// The other nodes that were alive when this node opened the store.
    var peersAtStart: [PeerNode] { get }
    /// Whether another node has taken over the calls of this node's earlier run.
    var wasTakenOver: Bool { get }
    /// Announces this node. `told` gets, on any thread, changes of the living nodes, and calls of ended nodes.
    func join(at place: String, told: @escaping @Sendable (NodeNews) -> Void)
    /// Gives a sign of life now, because the process stood still. `done` is called on any thread after all news is
    /// told, or after the store has not answered in time.
    func catchUp(done: @escaping @Sendable () -> Void)
}
