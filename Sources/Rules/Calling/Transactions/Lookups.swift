package import ProxyPolicy
package import Routing
package import SIPGrammar

/// The pending DNS look-ups, each with its purpose.
package struct Lookups {
    package enum Purpose {
        /// The look-up finds the addresses of a branch's next hop.
        case branch(Int, of: ProxiedRequest, Request, NextHop)
        /// The look-up finds the address of a caller from before the restart, so that the daemon can connect to the
        /// caller.
        case caller(ProxiedRequest)
        /// The look-up finds the upstream's addresses for the check of the upstream's health.
        case upstream
        /// The look-up finds the addresses of the PBX with the given number.
        case pbx(Int)
        /// The look-up finds the addresses of the daemon's own host name, to which the daemon sends OPTIONS.
        case ownName
    }

    package enum Request {
        case new(RequestEdits)
        /// The look-up finds the next hop that got the same INVITE before the daemon restarted.
        case again(StoredCall.SentINVITE)
    }

    private var pending: [ResolutionTicket: Purpose] = [:]
    private var last: UInt64 = 0
    package var withoutTCP = PlacesWithoutTCP()

    package init() {}

    /// Adds a pending look-up, and returns its ticket.
    package mutating func begin(for purpose: Purpose) -> ResolutionTicket {
        last &+= 1
        let ticket = ResolutionTicket(last)
        pending[ticket] = purpose
        return ticket
    }

    /// Removes a finished look-up and returns its purpose; `nil` if nobody needs the result any more.
    package mutating func take(_ ticket: ResolutionTicket) -> Purpose? { pending.removeValue(forKey: ticket) }

    /// Removes the pending look-ups for the upstream check, because the settings name a new upstream.
    package mutating func upstreamChanged() {
        pending = pending.filter { if case .upstream = $0.value { false } else { true } }
    }
}
