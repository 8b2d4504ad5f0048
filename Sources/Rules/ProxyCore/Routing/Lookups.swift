import Addressing
import SIPGrammar
import Timekeeping

/// Pending DNS look-ups, each with the purpose that the addresses serve.
struct Lookups {
    enum Purpose {
        /// A branch of a call waits for the address of its next hop.
        case branch(Int, of: ProxiedRequest, Request, NextHop)
        /// The daemon calls a caller of an earlier run back.
        case caller(ProxiedRequest)
        /// The daemon checks the health of the upstream at these addresses.
        case upstream
        /// The daemon sends OPTIONS to its own advertised name.
        case ownName
    }

    enum Request {
        case new(RequestEdits)
        /// An earlier run of the daemon has sent this INVITE to the next hop.
        case again(StoredCall.SentINVITE)
    }

    private var pending: [ResolutionTicket: Purpose] = [:]
    private var last: UInt64 = 0
    var withoutTCP = PlacesWithoutTCP()

    /// Registers a look-up and returns its ticket.
    mutating func begin(for purpose: Purpose) -> ResolutionTicket {
        last &+= 1
        let ticket = ResolutionTicket(last)
        pending[ticket] = purpose
        return ticket
    }

    /// - Returns: the purpose of the look-up; `nil` if nobody needs the answer any more.
    mutating func take(_ ticket: ResolutionTicket) -> Purpose? { pending.removeValue(forKey: ticket) }

    /// The settings name another upstream. Pending look-ups of the former upstream are dropped.
    mutating func upstreamChanged() {
        pending = pending.filter { if case .upstream = $0.value { false } else { true } }
    }
}

/// Places that refused a TCP connection within the last five minutes. Large requests to such a place go by UDP without
/// another attempt.
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
