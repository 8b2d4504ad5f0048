import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Retries of failed requests at another address of the same hop (RFC 3263 section 4.3).
extension ProxyEngine {
    /// A large request failed over TCP and will be sent by UDP. The place is remembered, so that later large requests
    /// use UDP immediately.
    func noteRefusal(of leg: BranchLeg, now: Moment) {
        guard leg.detour?.hops.contains(where: { $0.transport == .udp && $0.isFixed }) == true,
            let flow = leg.call.fork.branches[leg.branch].flow, flow.transport == .tcp
        else { return }
        lookups.withoutTCP.add(flow.remote, now: now.instant)
    }

    /// The addresses that a failed request may try next.
    enum Failover {
        /// The request could not be sent. Another transport to the same place is allowed (RFC 3261 section 18.1.1).
        case anyWay
        /// The request was sent, and got 503 or no response. The server has the request and must not get a second copy,
        /// so only another server is allowed (RFC 3263 section 4.3).
        case otherServers
    }

    /// Sends the request to the next address of the same hop, in a new transaction. False if no address is left.
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

    /// Sends the request of a leg to the next of the leg's addresses. False if no address is left.
    func sendElsewhere(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let detour = leg.detour, let incoming = revive(leg.call) else { return false }
        transmit(
            incoming, detour.edits, for: leg.branch, of: leg.call, to: detour.hops, device: detour.device, now: now)
        return true
    }
}
