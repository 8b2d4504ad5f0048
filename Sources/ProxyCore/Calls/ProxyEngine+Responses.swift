import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Responses on their way upstream, and the orders forks give.
extension ProxyEngine {
    func received(_ response: SIPResponse, of client: ClientTransactionID, now: Moment) {
        switch legs[client] {
        case .branch(let leg)?: received(response, of: client, leg, now: now)
        case .farewell(let farewell)?: farewellAnswered(farewell, response, of: client, now: now)
        case .question(let question)?: questionAnswered(question, response, of: client, now: now)
        case nil: break
        }
    }

    private func received(_ received: SIPResponse, of client: ClientTransactionID, _ leg: BranchLeg, now: Moment) {
        if received.status.isProvisional, leg.detour != nil {
            legs.arrived(client, isRinging: received.status != .trying)
        }
        leg.call.fork.heard(leg.branch, client)
        noteUpstreamHeard(leg, now: now)
        guard received.status != .trying else { return }
        if let outgoing = leg.call.outgoing { noteRinging(outgoing, now: now) }
        let response = stripped(received, of: leg)
        // One Via is ours; without another below it the response was for us alone (RFC 3261 section 16.7 item 3). But
        // nobody answers an INVITE of ours alone: some phones answer one that was cancelled with the Via of the CANCEL,
        // and their final response counts. The caller gets it with the Vias of its request.
        guard response.viaCount > 1 || response.status.isFinal else { return }
        let isFormer = leg.isFormer(client)
        if response.status.isProvisional {
            if isFormer { return formerSpoke(response.status, client, leg, now: now) }
            change(leg.call, now: now) { $0.provisionalReceived(response, on: leg.branch) }
        } else if response.status.isSuccess {
            if leg.call.fork.isInvite { noteDialog(response, leg) }
            change(leg.call, now: now) { $0.successReceived(response, on: leg.branch, from: client) }
        } else if isFormer {
            formerSpoke(response.status, client, leg, now: now)
            _ = wasTakenBack(client, leg, now: now)
        } else if wasTakenBack(client, leg, now: now) {
            return
        } else if response.status == .loopDetected, metTwice(leg, now: now) {
            return
        } else if response.status == .serviceUnavailable, !leg.hasRung, retry(client, leg, .otherServers, now: now) {
            return
        } else if response.status == .flowFailed, flowFailed(client, leg, now: now) {
            return
        } else if isUnanswerable(response) {
            noteUnanswerable(response, of: leg, now: now)
            change(leg.call, now: now) { $0.failed(leg.branch, with: .badGateway, response: nil) }
        } else {
            change(leg.call, now: now) { $0.failed(leg.branch, with: response.status, response: response) }
        }
    }

    /// A call was answered: which phones are in it now.
    private func noteDialog(_ response: SIPResponse, _ leg: BranchLeg) {
        if let device = leg.call.fork.branches[leg.branch].addressee, let tag = response.to.tag {
            dialogDevices.note(device, callID: response.callID, tag: tag)
        }
        guard !leg.call.isTrusted, let sender = leg.call.sender,
            let device = registrar.bindings.device(of: sender, where: { $0 == leg.call.source }),
            let tag = revive(leg.call)?.request.from.tag
        else { return }
        dialogDevices.note(device, callID: response.callID, tag: tag)
    }

    /// The response without what its sender may not say of its identity, or the caller may not hear (T9.7).
    private func stripped(_ response: SIPResponse, of leg: BranchLeg) -> SIPResponse {
        guard let flow = leg.call.fork.branches[leg.branch].flow, isTrusted(flow) else {
            return response.without(settings.stripped)
        }
        guard response.frame.contains(.pAssertedIdentity), CallerIdentity.wantsIDPrivacy(response.frame),
            !leg.call.isTrusted
        else { return response }
        return response.without(Self.privateIdentity)
    }

    /// RFC 3325 section 7: what `Privacy: id` keeps inside the trust domain.
    private static let privateIdentity = HeaderFilter([.pAssertedIdentity], names: [])

    // MARK: No response

    /// A next hop did not answer, or could not be reached.
    func legFailed(_ client: ClientTransactionID, with status: Status, now: Moment) {
        switch legs[client] {
        case .branch(let leg)?: legFailed(client, leg, with: status, now: now)
        case .farewell?: farewellEnded(client, now: now)
        case .question?: questionFailed(client, wasSent: status == .requestTimeout, now: now)
        case nil: break
        }
    }

    private func legFailed(_ client: ClientTransactionID, _ leg: BranchLeg, with status: Status, now: Moment) {
        if leg.isFormer(client) { return formerSpoke(status, client, leg, now: now) }
        if wasTakenBack(client, leg, now: now) { return }
        if status == .serviceUnavailable { noteRefusal(of: leg, now: now) }
        if !leg.hasArrived, !leg.call.fork.branches[leg.branch].wasHeard, goesOn(by: client, leg, now: now) { return }
        let failover = status == .serviceUnavailable ? Failover.anyWay : .otherServers
        if !leg.hasArrived, retry(client, leg, failover, now: now) { return }
        if status == .requestTimeout, staysSilent(leg, now: now) { return }
        if status == .requestTimeout, !leg.call.fork.isInvite {
            change(leg.call, now: now) { $0.silenced(leg.branch) }
        } else {
            branchFailed(leg.branch, of: leg.call, with: status, now: now)
        }
    }

    func legEnded(_ client: ClientTransactionID) {
        guard let leg = legs.end(client) else { return }
        leg.call.fork.formerEnded(client, of: leg.branch)
        calls.forgetIfDone(leg.call)
    }

    /// A large request that could not be sent over TCP is going to be sent as a datagram, and so are those after it.
    private func noteRefusal(of leg: BranchLeg, now: Moment) {
        guard leg.detour?.hops.contains(where: { $0.transport == .udp && $0.isFixed }) == true,
            let flow = leg.call.fork.branches[leg.branch].flow, flow.transport == .tcp
        else { return }
        withoutTCP.add(flow.remote, now: now.instant)
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

    func branchFailed(_ branch: Int, of call: Call, with status: Status, now: Moment) {
        change(call, now: now) { $0.failed(branch, with: status, response: nil) }
    }

    // MARK: Carrying out a fork's orders

    /// Lets something happen to a fork, then does what it orders and tells the ledger.
    func change(_ call: Call, now: Moment, _ event: (inout Fork) -> [Fork.Order]) {
        guard !call.isForgotten else { return }
        for order in event(&call.fork) { carryOut(order, for: call, now: now) }
        if call.fork.isAnswered, !call.wasAnswered { ledger.answered(call, now: now, into: &actions) }
        releaseEnded(call, now: now)
        ledger.changed(call, now: now, into: &actions)
        ledger.tellBucket(of: call, into: &actions)
        journal(call)
        if call.fork.phase == .ended || call.fork.phase == .answered { finish(call, now: now) }
    }

    private func carryOut(_ order: Fork.Order, for call: Call, now: Moment) {
        guard let server = call.server else {
            if let delivery = call.delivery { deliveryEnded(delivery, of: call, order, now: now) }
            return
        }
        switch order {
        case .relay(let response):
            guard let bytes = upstream(response, of: call) else { return }
            if response.status.isSuccess { journalAnswer(response, of: call, now: now) }
            respond(server, response.status, bytes, of: call, now: now)
        case .relayChallenge(let response, let others):
            guard let bytes = upstream(response, of: call, adding: others.flatMap(Self.challenges)) else { return }
            respond(server, response.status, bytes, of: call, now: now)
        case .respond(let status): respond(server, status, insteadOf: nil, of: call, now: now)
        case .respondInstead(of: let response, let status):
            respond(server, status, insteadOf: response, of: call, now: now)
        case .giveUp:
            // The transactions send no 408 to a non-INVITE, they only let go of it (RFC 4320 section 4.2).
            respond(server, .requestTimeout, [], now: now)
        case .cancel(let client, let reason):
            let reasons = reason.fields(callerReasons: call.callerReasons)
            withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        case .stopWaiting(let branch): stoppedWaiting(branch, of: call, now: now)
        case .hangUp(let response, let branch): hangUp(branch, of: call, response, now: now)
        }
    }

    /// Sends a final response of our own.
    private func respond(
        _ server: ServerTransactionID, _ status: Status, insteadOf response: SIPResponse?, of call: Call, now: Moment
    ) {
        guard let incoming = revive(call) else { return }
        let (status, own) = ownAnswer(
            status, to: incoming.request, insteadOf: response, wasWoken: call.dialogRequest?.hasWoken == true)
        // A 503 is not passed on (RFC 3261 section 16.7): this one says that the upstream is away.
        let fields = status == .serviceUnavailable && call.outgoing != nil ? own + upstreamIsAway : own
        let bytes = incoming.response(status, toTag: tags.next(), fields: fields)
        respond(server, status, bytes, of: call, now: now)
    }

    private func respond(
        _ server: ServerTransactionID, _ status: Status, _ bytes: [UInt8], of call: Call, now: Moment
    ) {
        if status.isFinal, !status.isSuccess { journalRefusal(bytes, of: call) }
        respond(server, status, bytes, now: now)
    }

    /// A response as the caller gets it; `nil` for one with too few Vias to a request that is forgotten.
    private func upstream(
        _ response: SIPResponse, of call: Call, adding fields: [AddedField] = []
    ) -> [UInt8]? {
        if response.viaCount > 1 { return response.withoutTopVia(adding: fields) }
        return revive(call).map {
            response.withVias(of: $0.request.frame, topViaAddition: $0.viaAddition, adding: fields)
        }
    }

    private static func challenges(of response: SIPResponse) -> [AddedField] {
        response.frame.values(of: .wwwAuthenticate).map { AddedField("WWW-Authenticate", $0) }
            + response.frame.values(of: .proxyAuthenticate).map { AddedField("Proxy-Authenticate", $0) }
    }

    /// Branches that are over need no push, and are not found by their devices any more.
    private func releaseEnded(_ call: Call, now: Moment) {
        guard call.offer != nil || call.dialogRequest != nil else { return }
        for index in call.fork.branches.indices where call.fork.branches[index].isEnded {
            ledger.drop(index, of: call, now: now, into: &actions)
        }
        calls.unlistEnded(call)
    }

    /// The final response is on its way: what only a call that is being offered needs can go.
    private func finish(_ call: Call, now: Moment) {
        timers.cancel(call.deadline)
        call.deadline = .none
        outgoingEnded(call)
        rememberEnded(call, now: now)
        calls.finish(call)
    }
}
