import Addressing
import Calling
import LocationService
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Goes on after the end of a connection between two nodes: INVITEs, CANCELs and responses that were lost are sent again.
extension ProxyEngine {
    /// Moves the responses to an INVITE to the node that repeats or cancels the INVITE on its own connection. The node that
    /// got the INVITE from the caller has ended, and another node continues the call.
    func nodeRepeats(_ request: SIPRequest, on flow: Flow) {
        // A CANCEL without Route is the caller's own, which another node passes on.
        guard request.method == .invite || request.method == .cancel, !request.routes.isEmpty,
            let server = sip.redirect(request, to: flow), let call = calls.call(of: server)
        else { return }
        call.moved(to: flow)
    }

    /// Handles the end of a connection to or from another node.
    func nodeConnectionEnded(_ flow: Flow, now: Moment) {
        moveResponses(from: flow)
        guard flow.isConnection, network.flows.isToNode(flow) else { return }
        let link = flow.on(connection: 0)
        let clients = sip.transactions.clients(on: link)
        guard !clients.isEmpty else { return }
        // If a second connection ends within a second, the requests fail, because the other node accepts none.
        let repeats = network.flows.nodes?.repeats(to: link, now: now.instant) == true
        for client in clients where !repeats || !repeatRequest(client, on: link, now: now) {
            connectionEnded(of: client, now: now)
        }
    }

    /// Sends the INVITE or CANCEL of a call to another node again, on a new connection, because it may be lost. The other
    /// node takes it as a retransmission, and repeats its last response. If no connection can be opened, the call waits
    /// for its phone again.
    ///
    /// - Returns: false for other requests, and for INVITEs of an earlier run or of another node. Their branch cannot be
    ///   written again.
    private func repeatRequest(_ client: ClientTransactionID, on link: Flow, now: Moment) -> Bool {
        guard !sip.transactions.isInherited(client), let leg = sip.legs.branch(client), leg.call.userCall != nil,
            let incoming = revive(leg.call), let listener = identity.listener(for: link)
        else { return false }
        let branch = leg.call.fork.branches[leg.branch]
        switch branch.state {
        case .calling(client), .takingBack(client):
            guard let target = target(of: leg, now: now), target.routeHash == branch.routeHash else { return false }
            let sent = StoredCall.SentINVITE(
                via: via(for: client, listener: listener, incoming), requestURI: target.requestURI,
                routes: target.path + (furtherRoute(of: incoming)?.texts ?? []), flow: link)
            act(.send(again(sent, of: leg.call, to: branch, incoming, now: now).bytes, on: link))
        case .cancelled(client, _): withTransactions { $0.cancelAgain(client, now: now.instant, into: &$1) }
        default: return false
        }
        return true
    }

    /// Moves the responses to another node's requests to a new connection to that node, because the connection of the
    /// requests has ended (RFC 3261 section 18.2.2). Otherwise the answer of a phone would be lost.
    private func moveResponses(from flow: Flow) {
        guard let back = network.flows.nodes?.ended(flow) else { return }
        for call in calls.brought(on: flow) {
            guard let server = call.server else { continue }
            call.moved(to: back)
            withTransactions { $0.move(server, to: back, into: &$1) }
        }
    }
}
