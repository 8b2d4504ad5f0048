import Addressing
import Bytes
import ProxyPolicy
import Timekeeping

/// The parts of a simulated cluster that are outside its nodes: the shared store, and the links between the nodes.
package final class SimulatedClusterState {
    /// The faults of a simulated day of a cluster.
    package struct Faults {
        /// How many times a node ends without notice.
        package var kills = 0
        /// How many times the links between two nodes are interrupted, or all connections between them break.
        package var cuts = 0
        package var breaks = 0
        /// How many times the store is away, hangs, or fails over to its standby.
        package var outages = 0
        package var hangs = 0
        package var failovers = 0
        /// How many times a single node does not reach the store.
        package var storeCuts = 0
    }

    /// The address of a node.
    struct Place {
        let name: String
        let address: IPAddress

        var endpoint: Endpoint { Endpoint(address, 5071) }

        func own(run: UInt32) -> OwnNode {
            OwnNode(
                name: name, place: ByteString("\(endpoint)"), listener: SimulatedClusterState.listener, run: run,
                secret: SipHash.Key(low: 1, high: 2))
        }

        func peer(run: UInt32) -> PeerNode { PeerNode(name: name, place: ByteString("\(endpoint)"), run: run) }
    }

    /// The nodes' listener for other nodes.
    static let listener: UInt16 = 2
    /// The name of the cluster (`advertise`) in Via and Record-Route.
    static let name = ByteString("sip.example.net:5060")

    let places: [Place]
    package let faults: Faults
    var store = SimulatedStore()
    /// The connections between nodes, by number.
    var links: [UInt64: SimulatedLink] = [:]
    /// The pairs of nodes between which no connection that the first node opened works, with the end of the interruption.
    var cutUntil: [[Int]: Instant] = [:]
    /// Until when a fault can delay or lose a wake: a fault in the store, in each node, and between two nodes.
    var storeTrouble = Instant.distantPast
    var nodeTrouble: [Int: Instant] = [:]
    var linkTrouble: [[Int]: Instant] = [:]
    /// The INVITEs that went from one node to another, by Call-ID and node.
    var forwarded: Set<Forward> = []
    /// The calls whose row may be in the store after their end, because the store did not answer.
    var undeleted = Set<ByteString>()
    package private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// Numbers of events.
    package internal(set) var exchanged = 0
    package internal(set) var takenOver = 0
    package internal(set) var resumed = 0
    package internal(set) var crossed = 0
    package internal(set) var expected = 0

    struct Forward: Hashable {
        let callID: String
        let node: Int
    }

    init(nodes count: Int, faults: Faults) {
        self.faults = faults
        places = (0..<count).map { Place(name: "n\($0)", address: IPAddress(v4: 0x0a00_0101 + UInt32($0))) }
    }

    /// The plan of a simulated day of a cluster. Seeds without a remainder of 8 have no faults. The bits of the
    /// remainder add faults of the links, of the store, and ends of nodes. On half of the days, phones whose flow shows
    /// life are called immediately.
    static func planned(_ seed: UInt64, nodes count: Int) -> (SimulatedWorld.Plan, SimulatedClusterState) {
        var plan = SimulatedWorld.Plan()
        (plan.calls, plan.crashes, plan.users) = (50, 0, 5)
        plan.ringsLiveFlows = seed / 8 % 2 == 1
        var faults = Faults()
        if seed & 1 != 0 { (faults.cuts, faults.breaks) = (8, 8) }
        if seed & 2 != 0 { (faults.outages, faults.hangs, faults.failovers, faults.storeCuts) = (3, 3, 3, 3) }
        if seed & 4 != 0 { faults.kills = 6 }
        return (plan, SimulatedClusterState(nodes: count, faults: faults))
    }

    /// Adds an event to the digest of the day.
    func note(_ time: Instant, _ size: Int) {
        digest = (digest ^ UInt64(bitPattern: time.nanoseconds) ^ UInt64(size) << 48) &* 0x100_0000_01b3
    }

    /// Whether a connection that the first node opens to the second node works.
    func isOpen(from node: Int, to peer: Int, now: Instant) -> Bool { (cutUntil[[node, peer]] ?? .distantPast) <= now }

    func noteLinkTrouble(_ node: Int, _ peer: Int, until end: Instant) {
        let pair = [min(node, peer), max(node, peer)]
        linkTrouble[pair] = max(linkTrouble[pair] ?? end, end)
    }
}

/// A connection between two nodes.
final class SimulatedLink {
    let number: UInt64
    /// The node that opened the connection, and the other node.
    let opener: Int
    let other: Int
    /// The times of the last arrivals at the opener and at the other node. The order of a stream never changes.
    var arrivals: [Int: Instant] = [:]
    var isBroken = false

    init(number: UInt64, opener: Int, other: Int) { (self.number, self.opener, self.other) = (number, opener, other) }

    func peer(of node: Int) -> Int { node == opener ? other : opener }
}
