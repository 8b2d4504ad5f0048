package import Addressing
import Bytes
package import ProxyPolicy
package import Registration
package import SIPDialogs
package import SIPGrammar
package import Timekeeping

/// The nodes of a cluster, and the Path values by which nodes reach the flows of other nodes.
///
/// In the store, the contact of a phone begins its Path with the URI of the node that has the phone's flow. In memory,
/// a contact with a flow of this node has no such value.
package struct Nodes {
    package let own: OwnNode
    private let seal: DialogSeal
    /// The other nodes that are alive, by `host:port`.
    private var peers: [ByteString: PeerNode] = [:]
    /// The nodes that have gone in the last minutes.
    private var gone: [(node: PeerNode, since: Instant)] = []
    /// The `host:port` of the nodes that have opened connections to this node.
    private var openers: [Flow: ByteString] = [:]

    /// When this node last repeated requests to another node, by the other node's address.
    private var repeated: [Endpoint: Instant] = [:]

    private static let memory: Duration = .seconds(600)

    package init(_ own: OwnNode, seal: DialogSeal) {
        self.own = own
        self.seal = seal
    }

    /// Notes the present list of the other living nodes.
    ///
    /// - Returns: whether a run of a node has ended.
    package mutating func changed(_ peers: [PeerNode], now: Instant) -> Bool {
        let isAnyRunOver = self.peers.values.contains { old in !peers.contains { $0.run == old.run } }
        defer { self.peers = Dictionary(peers.map { ($0.place.lowercased(), $0) }) { $1 } }
        let names = Set(peers.map(\.name))
        gone.removeAll { names.contains($0.node.name) || now - $0.since > Self.memory }
        for peer in self.peers.values where !names.contains(peer.name) { gone.append((peer, now)) }
        return isAnyRunOver
    }

    /// Another node, as an operator knows it.
    package struct Known: Hashable, Sendable {
        package let node: PeerNode
        /// False for a node that has ended, or runs without the database.
        package let isAlive: Bool
    }

    /// The other nodes that are alive, and the nodes that have gone lately, sorted by name. A node that has gone may still
    /// run and have calls, if only its way to the database is cut.
    package func known(now: Instant) -> [Known] {
        let gone = gone.filter { now - $0.since <= Self.memory }.map { Known(node: $0.node, isAlive: false) }
        return (peers.values.map { Known(node: $0, isAlive: true) } + gone).sorted { $0.node.name < $1.node.name }
    }

    package var peerCount: Int { peers.count }

    /// Whether a node accepts, or lately accepted, connections at the endpoint. A node that does not reach the database
    /// is no living peer, but still answers.
    package func hasNode(at endpoint: Endpoint) -> Bool {
        let place = ByteString("\(endpoint)")
        return peers[place] != nil || place == own.place || gone.contains { $0.node.place.lowercased() == place }
    }

    package func peer(named name: String) -> PeerNode? { peers.values.first { $0.name == name } }

    /// The flows on which this node sends requests to the other living nodes.
    package var flows: [Flow] { peers.values.compactMap { flow(to: $0) } }

    /// Notes which node has opened a connection. The node names itself in the Via of its requests.
    package mutating func sent(_ via: Via, on flow: Flow) {
        guard flow.isConnection, openers[flow] == nil, let port = via.port else { return }
        openers[flow] = ByteString("\(via.host.lowercased()):\(port)")
    }

    /// Notes the end of a connection.
    ///
    /// - Returns: a flow to the node that had opened the connection; `nil` if this node opened it, or if the other node has
    ///   ended.
    package mutating func ended(_ flow: Flow) -> Flow? {
        openers.removeValue(forKey: flow).flatMap { peerFlow(at: $0) }
    }

    package func flow(to peer: PeerNode) -> Flow? { flow(to: peer.place) }

    /// Notes that this node repeats its requests to another node after the end of a connection; the result is false if it
    /// has done so within the last second.
    package mutating func repeats(to link: Flow, now: Instant) -> Bool {
        repeated = repeated.filter { now - $0.value < .seconds(1) }
        return repeated.updateValue(now, forKey: link.remote) == nil
    }

    /// The flow to the living node at `host:port`.
    func peerFlow(at place: ByteString) -> Flow? { peers[place].flatMap { flow(to: $0) } }

    /// The flow to a node at `host:port`.
    func flow(to place: ByteString) -> Flow? {
        guard let hop = NextHop("sip:\(place);transport=tls"), let (_, endpoint) = hop.numeric else { return nil }
        return Flow(transport: .tls, listener: own.listener, connection: 0, remote: endpoint)
    }

    /// The place of the flow that a node's Path value names.
    package enum Place: Hashable, Sendable {
        /// The flow is at this node. A connection of an earlier run is closed.
        case own(Flow)
        /// The flow is at another living node, in the node's present run.
        case peer
        /// The node has ended or restarted, so the flow's connection is gone.
        case gone
    }

    /// The place of the flow that a Path URI names; `nil` if no node has made the URI.
    package func place(of uri: SIPURI) -> Place? {
        guard let text = uri.user, let port = uri.port, uri.parameters.contains("lr") else { return nil }
        let place = ByteString("\(uri.host.lowercased()):\(port)")
        guard let token = seal.openFlow(text, at: place) else { return nil }
        if place == own.place {
            // A newer version of this node may have written the flow, before the operator went back.
            return token.flow.map { .own(token.run == own.run ? $0 : $0.closed) } ?? .gone
        }
        return hasRun(token.run, at: place) ? .peer : .gone
    }

    /// Whether a run of another node lives, as far as this node knows. A later run than the known one has just started,
    /// because only a node itself writes its run into a contact.
    private func hasRun(_ run: UInt32, at place: ByteString) -> Bool {
        if let peer = peers[place] { return run >= peer.run }
        let last = gone.last { $0.node.place.lowercased() == place }
        return last.map { run > $0.node.run } ?? false
    }

    /// The binding of the phone whose flow at this node a Path URI names.
    package func ownBinding(of uri: SIPURI) -> DeviceID? {
        guard let text = uri.user, case .own? = place(of: uri) else { return nil }
        return seal.openFlow(text, at: own.place)?.binding
    }

    /// The name of the living node whose flow a Path URI names; `nil` for a flow of an ended node or of an earlier run.
    package func name(of uri: SIPURI) -> String? {
        switch place(of: uri) {
        case .own?: own.name
        case .peer?: uri.port.flatMap { peers[ByteString("\(uri.host.lowercased()):\($0)")]?.name }
        case .gone?, nil: nil
        }
    }

    /// The node that must care for a contact.
    package enum Keeper: Hashable, Sendable {
        case own, peer
        /// The run that had the phone's flow is over. The node with the duties cares for the contact.
        case nobody
    }

    /// The node that must care for a contact. Its row in the store names the run that had the phone's flow. A restarted
    /// node has a new run, and does not know the contacts of its earlier run.
    package func keeper(of row: StoredBinding) -> Keeper {
        guard let first = row.path.first, let uri = Self.uri(of: first), let text = uri.user, let port = uri.port,
            let token = seal.openFlow(text, at: ByteString("\(uri.host.lowercased()):\(port)"))
        else { return .nobody }
        if token.run == own.run { return .own }
        return peers.values.contains { $0.run == token.run } ? .peer : .nobody
    }

    // MARK: Rows of the store

    /// The row for the store: a flow of this node becomes a Path value.
    package func written(_ row: StoredBinding) -> StoredBinding {
        if let first = row.path.first, let uri = Self.uri(of: first), place(of: uri) != nil { return row }
        let token = seal.seal(FlowToken(run: own.run, flow: row.flow, binding: row.id), at: own.place)
        let value = ByteString(capacity: token.count + own.place.count + 32) { out in
            out.append("<sip:")
            out.append(token.span)
            out.append("@")
            out.append(own.place)
            out.append(";transport=tls;lr>")
        }
        return row.with(path: [value] + row.path, on: row.flow)
    }

    /// The row for this node's memory: the Path value of this node becomes the flow.
    package func read(_ row: StoredBinding) -> StoredBinding {
        guard let first = row.path.first, let uri = Self.uri(of: first), case .own(let flow)? = place(of: uri) else {
            return row
        }
        return row.with(path: Array(row.path.dropFirst()), on: flow)
    }

    private static func uri(of value: ByteString) -> SIPURI? { NameAddress(value)?.uri }
}
