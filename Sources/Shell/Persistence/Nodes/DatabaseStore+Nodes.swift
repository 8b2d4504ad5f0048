import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import Routing
import Timekeeping

extension DatabaseStore {
    /// The store as the nodes of a cluster share it; `nil` if one daemon uses the store.
    package var shared: (any SharedStore)? { nodes.map { SharedDatabase(writer: writer, nodes: $0) } }
}

/// The database of a cluster's store, for one node.
private final class SharedDatabase: SharedStore {
    private let writer: StoreWriter
    private let nodes: PostgreSQLNodes

    init(writer: StoreWriter, nodes: PostgreSQLNodes) { (self.writer, self.nodes) = (writer, nodes) }

    var run: UInt32 { nodes.run }

    func read(
        _ subjects: [UserSubject], waiting: Announcement?, answer: @escaping @Sendable (StoredUsers?) -> Void
    ) {
        guard writer.hasUnwritten else { return nodes.read(subjects, waiting: waiting, answer: answer) }
        // The answer must have all changes that this node has ordered before.
        Task { [writer, nodes] in
            await writer.writeWaiting()
            nodes.read(subjects, waiting: waiting, answer: answer)
        }
    }

    func nodes(waitingFor aor: AddressOfRecord, answer: @escaping @Sendable ([String]) -> Void) {
        nodes.nodes(waitingFor: aor, answer: answer)
    }

    func contacts(_ question: ContactSearch.Question, answer: @escaping @Sendable (ContactPage?) -> Void) {
        nodes.contacts(question, answer: answer)
    }

    func endWaiting(_ users: [AddressOfRecord]) { nodes.endWaiting(users) }

    func endInvite(_ aor: AddressOfRecord, callID: ByteString) { nodes.endInvite(aor, callID: callID) }

    func tell(_ counts: [SharedCount]) { nodes.tell(counts) }

    var peersAtStart: [PeerNode] { nodes.peersAtStart }

    var wasTakenOver: Bool { nodes.wasTakenOver }

    func join(at place: String, told: @escaping @Sendable (NodeNews) -> Void) { nodes.join(at: place, told: told) }

    func catchUp(done: @escaping @Sendable () -> Void) { nodes.catchUp(done: done) }
}
