import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Responses on their way upstream, and the orders forks give.
extension ProxyEngine {
    func relay(_ received: SIPResponse, of client: ClientTransactionID, now: Moment) {
        guard let leg = legs[client] else { return farewellAnswered(received, of: client, now: now) }
        if received.status.isProvisional, !leg.alternatives.isEmpty { legs[client]?.hasArrived = true }
        forks[leg.fork]?.fork.branches[leg.branch].wasHeard = true
        guard received.status != .trying else { return }
        let response = stripped(received, of: leg)
        // One Via is ours; without another below it the response was for us alone (RFC 3261 section 16.7 item 3). But
        // nobody answers an INVITE of ours alone: some phones answer one that was cancelled with the Via of the CANCEL,
        // and their final response counts. The caller gets it with the Vias of its request.
        guard response.viaCount > 1 || response.status.isFinal else { return }
        if response.status.isProvisional {
            restartTimerC(of: client, leg, now: now)
            if isFormer(client, leg) { return formerSpoke(response.status, client, leg, now: now) }
            change(leg.fork, now: now) { $0.provisionalReceived(response, on: leg.branch) }
            return
        }
        stopTimerC(of: client)
        if response.status.isSuccess {
            change(leg.fork, now: now) { $0.successReceived(response, on: leg.branch, from: client) }
        } else if isFormer(client, leg) {
            formerSpoke(response.status, client, leg, now: now)
            _ = wasTakenBack(client, leg, now: now)
        } else if wasTakenBack(client, leg, now: now) {
            return
        } else if response.status == .loopDetected, metTwice(leg, now: now) {
            return
        } else if response.status == .serviceUnavailable, retry(client, leg, now: now) {
            return
        } else {
            change(leg.fork, now: now) { $0.failed(leg.branch, with: response.status, response: response) }
        }
    }

    /// The response without what its sender may not say of its identity, or the caller may not hear (T9.7).
    private func stripped(_ response: SIPResponse, of leg: ClientLeg) -> SIPResponse {
        guard let context = forks[leg.fork], context.fork.branches.indices.contains(leg.branch),
            let flow = context.fork.branches[leg.branch].flow
        else { return response.without(settings.stripped) }
        if !isTrusted(flow.remote) { return response.without(settings.stripped) }
        guard response.frame.contains(.pAssertedIdentity), CallerIdentity.wantsIDPrivacy(response.frame),
            !isTrusted(context.source.remote)
        else { return response }
        return response.without(Self.privateIdentity)
    }

    /// RFC 3325 section 7: what `Privacy: id` keeps inside the trust domain.
    private static let privateIdentity = HeaderFilter([.pAssertedIdentity], names: [])

    /// A next hop did not answer, or could not be reached.
    func legFailed(_ client: ClientTransactionID, with status: Status, now: Moment) {
        guard let leg = legs[client] else { return farewellEnded(client, now: now) }
        stopTimerC(of: client)
        if isFormer(client, leg) { return formerSpoke(status, client, leg, now: now) }
        if wasTakenBack(client, leg, now: now) { return }
        if status == .serviceUnavailable { noteRefusal(of: leg, now: now) }
        if !leg.hasArrived, retry(client, leg, now: now) { return }
        if status == .requestTimeout, staysSilent(leg, now: now) { return }
        guard let fork = forks[leg.fork]?.fork else { return }
        if status == .requestTimeout, !fork.isInvite {
            change(leg.fork, now: now) { $0.silenced(leg.branch) }
        } else {
            branchFailed(leg.branch, of: leg.fork, with: status, now: now)
        }
    }

    /// A large request that could not be sent over TCP is going to be sent as a datagram, and so are those after it.
    private func noteRefusal(of leg: ClientLeg, now: Moment) {
        guard leg.alternatives.contains(where: { $0.transport == .udp && $0.isFixed }),
            let flow = forks[leg.fork]?.fork.branches[leg.branch].flow, flow.transport == .tcp
        else { return }
        withoutTCP.add(flow.remote, now: now.instant)
    }

    /// Tries the next address of the same hop in a new transaction (RFC 3263 section 4.3); false when there is none.
    private func retry(_ client: ClientTransactionID, _ leg: ClientLeg, now: Moment) -> Bool {
        guard let context = forks[leg.fork], context.fork.acceptsBranches, sendElsewhere(leg, context, now: now) else {
            return false
        }
        legs[client] = nil
        return true
    }

    /// Sends the request of a leg to the next of its addresses; false when there is none.
    func sendElsewhere(_ leg: ClientLeg, _ context: ForkContext, now: Moment) -> Bool {
        guard !leg.alternatives.isEmpty, let edits = leg.edits, let incoming = revive(context) else { return false }
        transmit(
            incoming, edits, fork: leg.fork, branch: leg.branch, to: leg.alternatives, device: leg.device, now: now)
        return true
    }

    func branchFailed(_ branch: Int, of fork: ForkID, with status: Status, now: Moment) {
        change(fork, now: now) { $0.failed(branch, with: status, response: nil) }
    }

    func legEnded(_ client: ClientTransactionID) {
        guard let leg = legs.removeValue(forKey: client) else { return }
        if let timer = leg.provisionalTimer { timers.cancel(timer) }
        forks[leg.fork]?.fork.formerEnded(client, of: leg.branch)
        forgetIfDone(leg.fork)
    }

    func serverEnded(_ server: ServerTransactionID) {
        guard let fork = forkOfServer.removeValue(forKey: server) else { return }
        forgetIfDone(fork)
    }

    /// A fork is kept until nothing can refer to it: its branches are over and so are its transactions.
    private func forgetIfDone(_ fork: ForkID) {
        guard let context = forks[fork], context.fork.phase == .ended, forkOfServer[context.server] == nil else {
            return
        }
        forks[fork] = nil
    }

    // MARK: Timer C

    private func restartTimerC(of client: ClientTransactionID, _ leg: ClientLeg, now: Moment) {
        guard let timer = leg.provisionalTimer else { return }
        timers.cancel(timer)
        legs[client]?.provisionalTimer = timers.schedule(
            .provisionalMissing(client), at: now.instant + settings.call.ringLimit)
    }

    private func stopTimerC(of client: ClientTransactionID) {
        guard let timer = legs[client]?.provisionalTimer else { return }
        timers.cancel(timer)
        legs[client]?.provisionalTimer = nil
    }

    func timerCFired(_ client: ClientTransactionID, now: Moment) {
        guard let leg = legs[client] else { return }
        legs[client]?.provisionalTimer = nil
        if isFormer(client, leg) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
            return
        }
        let reasons = [ByteString("SIP;cause=408;text=\"Request Timeout\"")]
        withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        branchFailed(leg.branch, of: leg.fork, with: .requestTimeout, now: now)
    }

    // MARK: Carrying out a fork's orders

    /// Lets something happen to a fork, then does what it orders and tells the bucket.
    func change(
        _ id: ForkID, callerReasons: [ByteString] = [], now: Moment, _ event: (inout Fork) -> [Fork.Order]
    ) {
        guard let context = forks[id] else { return }
        if !callerReasons.isEmpty { context.callerReasons = callerReasons }
        let orders = event(&context.fork)
        for order in orders { carryOut(order, for: id, context, callerReasons: callerReasons, now: now) }
        if context.fork.isAnswered, !context.wasAnswered { callRead(context, now: now) }
        unlistEnded(id, context)
        traceBranches(of: context, now: now)
        tellBucket(of: context)
        if context.fork.phase == .ended || context.fork.phase == .answered { finish(id, context, now: now) }
    }

    private func carryOut(
        _ order: Fork.Order, for id: ForkID, _ context: ForkContext, callerReasons: [ByteString], now: Moment
    ) {
        switch order {
        case .relay(let response):
            guard let bytes = relayed(response, of: context) else { return }
            respond(context.server, response.status, bytes, now: now)
        case .relayChallenge(let response, let others):
            let fields = others.flatMap(Self.challenges)
            guard let bytes = relayed(response, of: context, adding: fields) else { return }
            respond(context.server, response.status, bytes, now: now)
        case .respond(let status):
            guard let incoming = revive(context) else { return }
            respond(context.server, status, incoming.response(status, toTag: newTag(), fields: []), now: now)
        case .giveUp:
            // The transactions send no 408 to a non-INVITE, they only let go of it (RFC 4320 section 4.2).
            respond(context.server, .requestTimeout, [], now: now)
        case .cancel(let client, let reason):
            let reasons = Self.reasons(reason, callerReasons)
            withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        case .dropSleeper(let branch):
            dropPush(of: branch, in: id)
            tellEnd(of: context, to: branch, now: now)
        }
    }

    /// A response as the caller gets it; `nil` for one with too few Vias to a request that is forgotten.
    private func relayed(
        _ response: SIPResponse, of context: ForkContext, adding fields: [AddedField] = []
    ) -> [UInt8]? {
        if response.viaCount > 1 { return response.withoutTopVia(adding: fields) }
        return revive(context).map {
            response.withVias(of: $0.request.frame, topViaAddition: $0.viaAddition, adding: fields)
        }
    }

    private static func challenges(of response: SIPResponse) -> [AddedField] {
        response.frame.values(of: .wwwAuthenticate).map { AddedField("WWW-Authenticate", $0) }
            + response.frame.values(of: .proxyAuthenticate).map { AddedField("Proxy-Authenticate", $0) }
    }

    static func reasons(_ reason: Fork.CancelReason, _ callerReasons: [ByteString]) -> [ByteString] {
        switch reason {
        // The caller may say the same in its own words; a phone understands these.
        case .answeredElsewhere:
            callerReasons.contains(where: CallReason.saysCompletedElsewhere)
                ? callerReasons : [CallReason.completedElsewhere] + callerReasons
        case .declinedElsewhere(let status): [ByteString("SIP;cause=\(status.code)")]
        case .dismissed(let status): [ByteString("SIP;cause=\(status.code)")]
        case .callerCancelled: callerReasons
        case .moved: []
        }
    }

    /// The final response is on its way: what only a call that is being offered needs can go.
    private func finish(_ id: ForkID, _ context: ForkContext, now: Moment) {
        if let deadline = context.deadline {
            timers.cancel(deadline)
            context.deadline = nil
        }
        if let call = context.call { offers[call.key] = nil }
        rememberEnded(context, now: now)
        if !context.request.isEmpty {
            shares.giveBack(context.share, for: context.accounts)
            context.request = .empty
        }
        if context.fork.phase == .ended { forgetIfDone(id) }
    }
}
