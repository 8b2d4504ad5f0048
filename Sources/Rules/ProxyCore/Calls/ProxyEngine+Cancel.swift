import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Handles CANCEL requests from callers.
extension ProxyEngine {
    /// Answers a CANCEL with 200, and cancels the branches of its INVITE (RFC 3261 section 16.10).
    func cancelReceived(_ incoming: IncomingRequest, of invite: ServerTransactionID?, now: Moment) {
        if let invite, !isOfCaller(incoming, of: invite, now: now) {
            // The CANCEL of another sender gets no transaction, because a transaction would absorb the CANCEL of the
            // caller itself.
            return refuse(incoming, .callDoesNotExist, now: now)
        }
        // An untrusted sender's CANCEL without a matching INVITE gets no transaction, because a CANCEL cannot be
        // challenged (RFC 3261 section 22.1).
        guard
            let incoming = invite != nil || incoming.isTrusted
                ? startTransaction(incoming, cancelling: invite, now: now) : incoming
        else { return }
        guard let invite, let call = calls.call(of: invite) else {
            if invite == nil { strayCancelReceived(incoming, now: now) } else { refuse(incoming, .ok, now: now) }
            return
        }
        refuse(incoming, .ok, now: now)
        callerReturned(call, on: incoming.flow)
        if call.fork.isWaiting { output.counters.count(.heldCancelled) }
        let reasons = incoming.request.frame.values(of: .reason).map { $0.compacted() }
        let isAnswered = reasons.contains(where: CallReason.saysAnswered)
        call.cancelled(for: reasons)
        update(call, now: now) { $0.cancelReceived(answeredElsewhere: isAnswered) }
    }

    /// Whether the CANCEL came from the sender of the INVITE (T22.5).
    ///
    /// A matching branch parameter in Via proves nothing, because everybody who got the INVITE knows the parameter. A
    /// CANCEL can come from another address than its INVITE, because phones move and a PBX can have several addresses.
    private func isOfCaller(_ cancel: IncomingRequest, of invite: ServerTransactionID, now: Moment) -> Bool {
        guard let call = calls.call(of: invite) else { return true }
        if call.isTrusted, hasTenants {
            // A PBX of another tenant may share the address.
            return cancel.isTrusted && isTrusted(cancel.flow, for: home(of: call))
        }
        if cancel.flow.remote.address == call.source.remote.address { return true }
        if cancel.isTrusted, call.isTrusted { return true }
        guard let sender = call.sender else { return false }
        return registrar.bindings.forkTargets(for: sender, now: now.instant).contains {
            $0.flow.remote == cancel.flow.remote
        }
    }

    /// Forwards a CANCEL that matches no INVITE of this daemon, like any other request (RFC 3261 section 16.10).
    ///
    /// A CANCEL cannot be challenged, so its sender must be known without a password (RFC 3261 section 22.1). A CANCEL
    /// for which the daemon finds no destination is answered with 481.
    func strayCancelReceived(_ incoming: IncomingRequest, now: Moment) {
        guard isFit(incoming, isForUs: false, now: now) else { return }
        switch route(of: incoming.request) {
        case .dialog(let pass, let next):
            guard isAlive(pass, now: now), isAtHome(incoming.flow, pass, now: now),
                let hop = dialogHop(pass, next, now: now)
            else { break }
            let caller = caller(of: incoming, pass)
            guard admitsBesides(incoming, from: caller, now: now) else { return }
            forward(incoming, from: caller, next, on: hop, pass, now: now)
            return
        case .initial(let next) where incoming.request.to.tag == nil:
            guard let home = home(of: next.requestURI, from: incoming),
                incoming.isTrusted
                    ? isTrusted(incoming.flow, for: home) : belongTogether(home, senderDomain(incoming)),
                let aor = userCalled(byTokenIn: next.requestURI, incoming)
                    ?? AddressOfRecord(next.requestURI, home: home)
            else { break }
            let caller = Caller(of: incoming.request, on: incoming.flow, isTrusted: incoming.isTrusted)
            guard admitsBesides(incoming, from: caller, now: now) else { return }
            let parties = HeldShares.Parties(caller: caller)
            if !incoming.isTrusted, let upstream = upstream(of: senderDomain(incoming))?.hop {
                guard registrar.device(calling: incoming, identity) != nil else { break }
                guard let (incoming, call) = startProxying(incoming, to: [nil], parties: parties, now: now) else {
                    return
                }
                let edits = RequestEdits(requestURI: next.requestURI.text, via: .empty, maxForwards: 70)
                sendToHop(incoming, edits, for: 0, of: call, to: upstream, now: now)
                return
            }
            guard incoming.isTrusted || registrar.device(calling: incoming, identity) != nil,
                let target = registrar.bindings.forkTargets(for: aor, now: now.instant).first(where: {
                    $0.isFresh && !$0.flow.isClosed
                })
            else { break }
            guard let (incoming, call) = startProxying(incoming, to: [target.id], parties: parties, now: now) else {
                return
            }
            sendToDevice(incoming, for: 0, of: call, to: target, now: now)
            return
        case .initial, .forged: break
        }
        refuse(incoming, .callDoesNotExist, now: now)
    }
}
