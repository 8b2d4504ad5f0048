import Addressing
import SIPGrammar
import Timekeeping

/// Host names that are being looked up, each with what its addresses are for.
struct Lookups {
    enum Purpose {
        /// A branch whose request goes there.
        case branch(Int, of: Call, Request, NextHop)
        /// The caller of an earlier run is called back.
        case caller(Call)
        /// The upstream's health is watched at its addresses.
        case upstream
        /// The daemon asks itself at its own name.
        case ownName
    }

    enum Request {
        case new(RequestEdits)
        /// An earlier run of the program has sent it there.
        case again(StoredCall.SentINVITE)
    }

    private var pending: [ResolutionTicket: Purpose] = [:]
    private var last: UInt64 = 0
    var withoutTCP = PlacesWithoutTCP()

    /// A name is going to be looked up.
    mutating func begin(for purpose: Purpose) -> ResolutionTicket {
        last &+= 1
        let ticket = ResolutionTicket(last)
        pending[ticket] = purpose
        return ticket
    }

    /// - Returns: what was asked for; `nil` when its answer is of no interest any more.
    mutating func take(_ ticket: ResolutionTicket) -> Purpose? { pending.removeValue(forKey: ticket) }

    /// The upstream is another one now: what is said of the former counts for nothing.
    mutating func upstreamChanged() {
        pending = pending.filter { if case .upstream = $0.value { false } else { true } }
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
