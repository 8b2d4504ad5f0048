package import ProxyPolicy
package import Routing
package import SIPGrammar

/// The pending DNS look-ups, each with its purpose.
package struct Lookups {
    package enum Purpose {
        /// The purpose of the DNS look-up is to find the addresses of the next hop for a branch of a call.
        case branch(Int, of: ProxiedRequest, Request, NextHop)
        /// The look-up finds the address of a caller of the daemon's earlier run, to whom the daemon opens a
        /// connection.
        case caller(ProxiedRequest)
        /// The look-up finds the upstream's addresses for the check of the upstream's health.
        case upstream
        /// The purpose of the DNS look-up is to find the addresses of the PBX with the given number, at which the
        /// daemon registers users.
        case pbx(Int)
        /// The purpose of the DNS look-up is to find the addresses of the daemon's own advertised host name, to which
        /// the daemon sends OPTIONS.
        case ownName
    }

    package enum Request {
        case new(RequestEdits)
        /// The look-up finds the address of a next hop to which the daemon's earlier run has sent the same INVITE.
        case again(StoredCall.SentINVITE)
    }

    private var pending: [ResolutionTicket: Purpose] = [:]
    private var last: UInt64 = 0
    package var withoutTCP = PlacesWithoutTCP()

    package init() {}

    /// Registers a new look-up, and returns the ticket that identifies it.
    package mutating func begin(for purpose: Purpose) -> ResolutionTicket {
        last &+= 1
        let ticket = ResolutionTicket(last)
        pending[ticket] = purpose
        return ticket
    }

    /// Removes a look-up whose result has come, and returns its purpose; `nil` if nobody needs the result any more.
    package mutating func take(_ ticket: ResolutionTicket) -> Purpose? { pending.removeValue(forKey: ticket) }

    /// Drops the pending look-ups for the check of the upstream, because the settings now name a new upstream.
    package mutating func upstreamChanged() {
        pending = pending.filter { if case .upstream = $0.value { false } else { true } }
    }
}
