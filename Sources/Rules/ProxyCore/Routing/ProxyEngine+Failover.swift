import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Requests that came to nothing where they were sent, and go to another address of the same hop (RFC 3263 section 4.3).
extension ProxyEngine {
    /// A large request that could not be sent over TCP is going to be sent as a datagram, and so are those after it.
    func noteRefusal(of leg: BranchLeg, now: Moment) {
        guard leg.detour?.hops.contains(where: { $0.transport == .udp && $0.isFixed }) == true,
            let flow = leg.call.fork.branches[leg.branch].flow, flow.transport == .tcp
        else { return }
        lookups.withoutTCP.add(flow.remote, now: now.instant)
    }

    /// Where a request may go that came to nothing where it was sent.
    enum Failover {
        /// It could not be sent: another transport to the same place may do (RFC 3261 section 18.1.1).
        case anyWay
        /// It was sent, and answered with 503 or not at all: the server has it, and must not get it twice. Another server may
        /// do (RFC 3263 section 4.3).
        case otherServers
    }

    /// Tries the next address of the same hop in a new transaction; false when there is none.
    func retry(_ client: ClientTransactionID, _ leg: BranchLeg, _ failover: Failover, now: Moment) -> Bool {
        guard leg.call.fork.acceptsBranches else { return false }
        var leg = leg
        if failover == .otherServers {
            leg.detour = leg.detour?.toOthers(than: leg.call.fork.branches[leg.branch].flow)
        }
        guard sendElsewhere(leg, now: now) else { return false }
        legs.end(client)
        return true
    }

    /// Sends the request of a leg to the next of its addresses; false when there is none.
    func sendElsewhere(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let detour = leg.detour, let incoming = revive(leg.call) else { return false }
        transmit(
            incoming, detour.edits, for: leg.branch, of: leg.call, to: detour.hops, device: detour.device, now: now)
        return true
    }
}
