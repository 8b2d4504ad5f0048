import Addressing
import Calling
import LocationService
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Takes over the calls of nodes that have ended.
extension ProxyEngine {
    /// Takes over a call, and reads its user first. The store has the call for this node then, so that a third node can
    /// take it over.
    func takeOver(_ invite: HeldInvite, now: Moment) {
        // After the ring time, phones can still ring, until timer C. If no phone rings, the caller still needs an answer.
        let further = invite.call == nil ? .zero : sip.transactions.timers.ringLimit
        guard now.date < invite.until + further else { return }
        output.counters.count(.callTakenOver)
        guard invite.call != nil else { return beginAgain(invite, now: now) }
        let ticket = network.held.arrives(invite)
        // The caller's contacts show where a phone is that has called.
        let subjects = [invite.aor, invite.call?.sender].compactMap { $0 }.map(UserSubject.user)
        guard case .asks(let question) = registrar.reads.hold(.takenOver(ticket), concerning: subjects) else { return }
        waits(forPhonesOf: invite.aor, now: now)
        act(.readUsers(question, waiting: Announcement(aor: invite.aor, invite: invite)))
    }

    /// Continues a call of an ended node, as this node continues its own calls after a restart. A phone that rings gets
    /// no new INVITE.
    func continueCall(_ ticket: TakeoverTicket, now: Moment) {
        guard let invite = network.held.arrived(ticket), let request = functions.reread(invite.request) else { return }
        let cancels = network.held.takeCancels(of: TransactionKey(of: request))
        defer { for cancel in cancels { cancelArrived(cancel, now: now) } }
        // The caller may have repeated the INVITE here in the meantime, so that the call has begun again.
        guard sip.transactions.server(of: request) == nil else { return }
        guard let state = invite.call else { return }
        // A PBX of another tenant can know the branch of the INVITE. The waiting CANCELs are not those of phones.
        let isCancelled = state.isTrusted && cancels.contains { isTrusted($0, for: invite.aor.host) }
        let isOver = isCancelled || now.date >= invite.until
        let isLost = !state.isTrusted && state.source.transport.isReliable
        restore(state.takenOver(as: calls.nextID, isOver: isOver || isLost), now: now)
        if isLost { callerIsLost(request, now: now) }
        armAwayCallers(now: now)
    }

    /// Ends the call of a phone whose connection has ended with its node. A phone gives its call up when its connection
    /// ends, so the called user gets a missed call instead of a call without a caller.
    private func callerIsLost(_ request: SIPRequest, now: Moment) {
        guard let server = sip.transactions.server(of: request), let call = calls.call(of: server) else { return }
        log.info(
            "the connection of a calling phone has ended with its node, so the call is a missed call",
            [.aor: .text(call.userCall?.aor.description ?? ""), .callID: .bytes(request.callID)])
        call.cancelled(for: [])
        update(call, now: now) { $0.cancelReceived(answeredElsewhere: false) }
    }

    /// Handles the INVITE of an ended node as a new INVITE, because the state of its call is unknown. The phones get a
    /// push again.
    private func beginAgain(_ invite: HeldInvite, now: Moment) {
        guard let request = functions.reread(invite.request) else { return }
        requestReceived(request, on: invite.source.on(connection: 0), now: now)
        for cancel in network.held.takeCancels(of: TransactionKey(of: request)) { cancelArrived(cancel, now: now) }
    }

    // MARK: CANCELs that come before their call

    /// Lets a CANCEL wait for its call, if this node does not have the call. The call's node may have ended, and this node
    /// may take the call over in a few seconds. The peer's retransmissions of the CANCEL are absorbed. The CANCEL gets no
    /// transaction yet, because a transaction would absorb the CANCEL of the caller itself.
    ///
    /// - Returns: false if the CANCEL must be handled now.
    func waitsForCall(_ cancel: IncomingRequest, now: Moment) -> Bool {
        guard network.flows.haveNodes, cancel.isTrusted, cancel.request.to.tag == nil,
            !network.flows.isOfNode(cancel.flow)
        else { return false }
        let end = now.instant + Self.takeoverTime
        switch network.held.keeps(cancel, until: end) {
        case .new: _ = output.timers.schedule(.cancelsDue, at: end)
        case .repeated: break
        case .none: return false
        }
        return true
    }

    /// The longest time from the end of a node to the takeover of its calls.
    private static let takeoverTime: Duration = .seconds(8)

    func cancelsDue(now: Moment) {
        for cancel in network.held.takeCancels(dueBy: now.instant) { cancelArrived(cancel, now: now) }
    }

    private func cancelArrived(_ cancel: IncomingRequest, now: Moment) {
        if cancelledWhileReading(cancel, now: now) { return }
        if let invite = sip.transactions.server(of: cancel.request) {
            cancelReceived(cancel, of: invite, now: now)
        } else {
            dispatch(cancel, now: now)
        }
    }
}
