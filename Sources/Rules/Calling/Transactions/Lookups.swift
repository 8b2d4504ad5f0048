import Addressing
package import ProxyPolicy
package import Routing
package import SIPGrammar
import Timekeeping

/// Pending DNS look-ups, each with the purpose that the addresses serve.
package struct Lookups {
    package enum Purpose {
        /// A branch of a call waits for the address of its next hop.
        case branch(Int, of: ProxiedRequest, Request, NextHop)
        /// The daemon calls a caller of an earlier run back.
        case caller(ProxiedRequest)
        /// The daemon checks the health of the upstream at these addresses.
        case upstream
        /// The daemon sends OPTIONS to its own advertised name.
        case ownName
    }

    package enum Request {
        case new(RequestEdits)
        /// An earlier run of the daemon has sent this INVITE to the next hop.
        case again(StoredCall.SentINVITE)
    }

    private var pending: [ResolutionTicket: Purpose] = [:]
    private var last: UInt64 = 0
    package var withoutTCP = PlacesWithoutTCP()

    package init() {}

    /// Registers a look-up and returns its ticket.
    package mutating func begin(for purpose: Purpose) -> ResolutionTicket {
        last &+= 1
        let ticket = ResolutionTicket(last)
        pending[ticket] = purpose
        return ticket
    }

    /// - Returns: the purpose of the look-up; `nil` if nobody needs the answer any more.
    package mutating func take(_ ticket: ResolutionTicket) -> Purpose? { pending.removeValue(forKey: ticket) }

    /// The settings name another upstream. Pending look-ups of the former upstream are dropped.
    package mutating func upstreamChanged() {
        pending = pending.filter { if case .upstream = $0.value { false } else { true } }
    }
}
