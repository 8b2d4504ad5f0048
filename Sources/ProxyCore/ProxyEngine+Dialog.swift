import Addressing
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Requests inside dialogs that were made through here.
extension ProxyEngine {
    func dialogRequestReceived(_ incoming: IncomingRequest, _ token: DialogToken, _ next: RouteSet.Next, now: Moment) {
        guard let hop = dialogHop(incoming, token, next) else {
            refuse(incoming, .temporarilyUnavailable, now: now)
            return
        }
        guard let incoming = begun(incoming, now: now) else { return }
        let fork = makeFork(incoming, branches: [ForkBranch(state: .sleeping, device: nil)], call: nil)
        sendTrying(incoming, now: now)
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        edits.routes = next.rows
        transmit(
            incoming, edits, fork: fork, branch: 0, on: hop, device: nil, alternatives: [], now: now)
    }

    /// An ACK for a 2xx: routed like any request, but in no transaction (RFC 3261 section 16.10, 17).
    func ackReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard request.maxForwards != 0, request.uri.scheme != .sips,
            case .dialog(let token, let next) = RouteSet.preprocess(request, identity: identity, seal: functions.seal),
            let flow = dialogHop(incoming, token, next), let listener = identity.listener(flow.listener),
            let number = transactions.makeClientTransaction()
        else { return }
        // The number makes the Via unique; no transaction is started with it.
        defer { transactions.discard(number) }
        var edits = RequestEdits(
            requestURI: next.requestURI.text, via: via(for: number, listener: listener, incoming),
            maxForwards: (request.maxForwards ?? 71) - 1)
        edits.routes = next.rows
        edits.topViaAddition = incoming.viaAddition
        strip(&edits, of: incoming)
        act(.send(request.forwarded(edits).bytes, on: flow))
    }

    /// The flow to the other end of the dialog.
    private func dialogHop(_ incoming: IncomingRequest, _ token: DialogToken, _ next: RouteSet.Next) -> Flow? {
        let side = otherSide(of: incoming.flow, in: token)
        if let binding = side.binding {
            // The phone may have moved since: its binding knows where it is now.
            return bindings.binding(binding)?.flow ?? side.flow
        }
        // A peer names the place for its in-dialog requests in Contact or Record-Route. We go there only when that
        // place is trusted; else, and for names, the address its dialog came from serves.
        guard let hop = NextHop(next.target), let (transport, endpoint) = hop.numeric, isTrusted(endpoint),
            endpoint != side.flow.remote,
            let listener = identity.listener(
                for: transport, to: endpoint.address, preferring: side.flow.listener)
        else { return side.flow }
        return Flow(transport: transport, listener: listener.number, connection: 0, remote: endpoint)
    }

    /// The end that the request did not come from.
    private func otherSide(of flow: Flow, in token: DialogToken) -> DialogSide {
        if isSame(flow, token.caller) { return token.callee }
        if isSame(flow, token.callee) { return token.caller }
        // Neither: a peer that sends from another port than it listens on, or a phone on a new connection.
        if token.callee.binding != nil, token.caller.binding == nil {
            return isTrusted(flow.remote) ? token.callee : token.caller
        }
        if token.caller.binding != nil, token.callee.binding == nil {
            return isTrusted(flow.remote) ? token.caller : token.callee
        }
        let address = flow.remote.address
        return address == token.callee.flow.remote.address ? token.caller : token.callee
    }

    private func isSame(_ flow: Flow, _ side: DialogSide) -> Bool {
        if let binding = side.binding, let current = bindings.binding(binding)?.flow, isSame(flow, current) {
            return true
        }
        return isSame(flow, side.flow)
    }

    private func isSame(_ flow: Flow, _ other: Flow) -> Bool {
        guard flow.transport == other.transport else { return false }
        if flow.transport.isReliable, other.connection != 0 { return flow.connection == other.connection }
        return flow.remote == other.remote
    }
}
