package import Addressing
import SIPGrammar
import Timekeeping

/// One address a name stands for.
package struct ResolvedHop: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint
    /// The transport was asked for: a large request does not go by another (RFC 3261 section 18.1.1).
    package let isFixed: Bool
    /// Whose certificate it must show, where the transport has any.
    package let server: ServerNumber

    package init(
        transport: Transport, endpoint: Endpoint, isFixed: Bool = false, server: ServerNumber = .none
    ) {
        self.transport = transport
        self.endpoint = endpoint
        self.isFixed = isFixed
        self.server = server
    }

    /// Whether it is the place that the flow leads to, by whatever transport: a server has a port for each.
    func isSameServer(as flow: Flow) -> Bool {
        endpoint.address == flow.remote.address && (endpoint.port == flow.remote.port || transport != flow.transport)
    }

    var fixed: ResolvedHop {
        ResolvedHop(transport: transport, endpoint: endpoint, isFixed: true, server: server)
    }
}

/// A branch whose next hop is being looked up.
struct PendingResolution {
    let call: Call
    let branch: Int
    let request: Request
    let hop: NextHop

    enum Request {
        case new(RequestEdits)
        /// An earlier run of the program has sent it there.
        case again(StoredCall.SentINVITE)
    }
}

/// Places that have just refused a connection, so that not every large request to them waits for that again.
struct PlacesWithoutTCP {
    private var ends: [Endpoint: Instant] = [:]

    private static let limit = 256
    private static let age: Duration = .seconds(300)

    func contains(_ place: Endpoint, now: Instant) -> Bool { ends[place].map { now < $0 } ?? false }

    mutating func add(_ place: Endpoint, now: Instant) {
        if ends.count >= Self.limit { ends = ends.filter { now < $0.value } }
        if ends.count >= Self.limit { ends.removeAll() }
        ends[place] = now + Self.age
    }
}
