import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
package import Timekeeping

/// Requests inside dialogs that were made through this proxy. They go from one side of the dialog to the other, and
/// nowhere else (T20).
extension ProxyEngine {
    func dialogRequestReceived(_ incoming: IncomingRequest, _ pass: DialogPass, _ next: RouteSet.Next, now: Moment) {
        guard isAlive(pass, now: now) else {
            refuse(incoming, .callDoesNotExist, now: now)
            return
        }
        guard admits(incoming, pass, now: now) else { return }
        if let breach = breach(of: incoming, pass) {
            // The sender has proved itself, so a transaction is begun, where its ACK ends. Without one, the ACK would
            // go to the other side.
            guard let incoming = startTransaction(incoming, now: now) else { return }
            return refuse(incoming, by: breach, now: now)
        }
        renew(pass, now: now)
        let next = withoutGRUU(next, pass, now: now)
        let caller = caller(of: incoming, pass)
        guard admitsBesides(incoming, from: caller, now: now) else { return }
        if let request = dialogRequest(incoming, pass, next, from: caller) {
            return sendInDialog(incoming, request, now: now)
        }
        guard let hop = dialogHop(pass, next, now: now) else {
            if next.isSecure {
                refuse(incoming, .temporarilyUnavailable, fields: [sipsNotAllowed], now: now)
            } else {
                let (status, fields) = ownAnswer(.temporarilyUnavailable, to: incoming.request)
                refuse(incoming, status, fields: fields, now: now)
            }
            return
        }
        forward(incoming, from: caller, next, on: hop, pass, now: now)
    }

    /// The caller in whose share a request inside a dialog counts: the user on the side that sent it.
    func caller(of incoming: IncomingRequest, _ pass: DialogPass) -> Caller {
        if case .phone(let device) = pass.sender.party, let aor = registrar.bindings.binding(device)?.aor {
            return Caller(user: aor)
        }
        return caller(of: incoming.request, on: incoming.flow, isTrusted: incoming.isTrusted || pass.isFromPeer)
    }

    /// Why a phone may not send this request inside its dialog; `nil` if it may.
    private func breach(of incoming: IncomingRequest, _ pass: DialogPass) -> RequestRules.Breach? {
        guard !pass.isFromPeer else { return nil }
        if !keepsItsName(incoming, pass) { return .otherName }
        return incoming.isTrusted ? nil : RequestRules.insideDialogs(incoming.request)
    }

    /// An ACK for a 2xx is routed like any request, but without a transaction (RFC 3261 sections 16.10 and 17). An
    /// ACK is dropped where another request would be refused.
    func ackReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard request.maxForwards != 0,
            case .dialog(let pass, let next) = route(of: request),
            isAlive(pass, now: now), isAtHome(incoming.flow, pass, now: now),
            let flow = dialogHop(pass, next, now: now), !identity.isOurs(flow.transport, flow.remote),
            request.uri.scheme != .sips || incoming.flow.transport.isSecure && flow.transport.isSecure,
            let listener = identity.listener(flow.listener),
            let number = transactions.makeClientTransaction()
        else { return }
        // The number makes the Via unique. No transaction is started with it.
        defer { transactions.discard(number) }
        var edits = RequestEdits(
            requestURI: withoutGRUU(next, pass, now: now).requestURI.text,
            via: via(for: number, listener: listener, incoming),
            maxForwards: (request.maxForwards ?? 71) - 1)
        edits.routes = next.rows
        edits.topViaAddition = incoming.viaAddition
        strip(&edits, of: incoming)
        act(.send(request.forwarded(edits).bytes, on: flow))
        journalACK(request, now: now)
    }

    func forward(
        _ incoming: IncomingRequest, from caller: Caller, _ next: RouteSet.Next, on hop: Flow, _ pass: DialogPass,
        now: Moment
    ) {
        let parties = HeldShares.Parties(caller: caller)
        guard let (incoming, call) = startProxying(incoming, to: [nil], parties: parties, now: now) else { return }
        sendTrying(incoming, now: now)
        forward(incoming, next, of: call, on: hop, pass, now: now)
    }

    func forward(
        _ incoming: IncomingRequest, _ next: RouteSet.Next, of call: ProxiedRequest, on hop: Flow, _ pass: DialogPass,
        now: Moment
    ) {
        var edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
        edits.routes = next.rows
        transmit(
            incoming, edits, for: 0, of: call, on: hop, device: nil,
            alternatives: insteadOfConnection(hop, pass, next), mayUseTCP: mayUseTCP(pass, next), now: now)
    }

    // MARK: How long (T20.5)

    /// Restores from the store how long an earlier run renewed a dialog.
    package func restoreDialog(_ digest: UInt64, until: UnixTime, now: Moment) {
        dialogs.renewals.renew(digest, until: until, now: now.date)
    }
}
