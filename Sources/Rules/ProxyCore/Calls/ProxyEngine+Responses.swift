import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import Waking

/// Handles responses from next hops, and transactions that fail without a response.
extension ProxyEngine {
    func received(_ response: SIPResponse, of client: ClientTransactionID, now: Moment) {
        switch sip.legs[client] {
        case .branch(let leg)?: received(response, of: client, leg, now: now)
        case .farewell(let farewell)?: farewellAnswered(farewell, response, of: client, now: now)
        case .answered(let answered)?: if response.status.isSuccess { hangUp(answered, response, now: now) }
        case .question(let question)?: questionAnswered(question, response, of: client, now: now)
        case .registration(let number)?: registrationAnswered(number, response, of: client, now: now)
        case nil: break
        }
    }

    private func received(_ received: SIPResponse, of client: ClientTransactionID, _ leg: BranchLeg, now: Moment) {
        if received.status.isProvisional, leg.detour != nil {
            sip.legs.arrived(client, isRinging: received.status != .trying)
        }
        leg.call.fork.heard(leg.branch, client)
        noteUpstreamHeard(leg, now: now)
        if !upstreamUsers.pbxs.isEmpty { notePBXHeard(leg, now: now) }
        guard received.status != .trying else { return }
        if let outgoing = leg.call.outgoing { noteRinging(outgoing, now: now) }
        noteReturned(leg, received.status, now: now)
        noteAcceptance(received.status, of: leg)
        let response = stripped(received, of: leg)
        // The daemon ignores a provisional response without a Via for the caller (RFC 3261 section 16.7 item 3). The
        // daemon accepts a final response without a Via for the caller, because some phones answer a cancelled INVITE
        // with only the Via of this proxy's CANCEL.
        guard response.viaCount > 1 || response.status.isFinal else { return }
        noteForwardHeard(leg, response.status, now: now)
        let isFormer = leg.isFormer(client)
        if response.status.isProvisional {
            if isFormer { return formerSpoke(response.status, client, leg, now: now) }
            update(leg.call, now: now) { $0.provisionalReceived(response, on: leg.branch) }
        } else if response.status.isSuccess {
            if leg.call.fork.isInvite { noteDialog(response, leg) }
            update(leg.call, now: now) { $0.successReceived(response, on: leg.branch, from: client) }
        } else if isFormer {
            formerSpoke(response.status, client, leg, now: now)
            _ = wasTakenBack(client, leg, now: now)
        } else if wasTakenBack(client, leg, now: now) {
            return
        } else if response.status == .loopDetected, loopReported(leg, now: now) {
            return
        } else if response.status == .serviceUnavailable, !leg.hasRung, retry(client, leg, .otherServers, now: now) {
            return
        } else if response.status == .flowFailed, flowFailed(client, leg, now: now) {
            return
        } else if response.challengesOnly(in: ownRealms(of: hasTenants ? home(of: leg.call) : nil)),
            !pbxChallenges(leg)
        {
            noteUnanswerable(response, of: leg, now: now)
            update(leg.call, now: now) { $0.failed(leg.branch, with: .badGateway, response: nil) }
        } else {
            update(leg.call, now: now) { $0.failed(leg.branch, with: response.status, response: response) }
        }
    }

    /// Counts and logs a peer's 401 or 407 that uses a realm of this daemon, because phones cannot answer such a
    /// challenge (T9.17).
    private func noteUnanswerable(_ response: SIPResponse, of leg: BranchLeg, now: Moment) {
        output.counters.count(.challengeUnanswerable)
        guard let suppressed = access.refusals.challengedUnanswerably(now: now.instant) else { return }
        let realm = access.digest.realmTexts.first { realm in
            response.frame.fields.contains { field in
                (field.name == .wwwAuthenticate || field.name == .proxyAuthenticate)
                    && response.frame.credentials(field, areFor: [realm])
            }
        }
        let peer = leg.call.fork.branches[leg.branch].flow?.remote
        log.notice(
            "a peer challenges phones in this daemon's own realm, so the phones' answers do not reach the peer: give the peer its own realm, or let the peer trust this daemon",
            [
                .target: peer.map { .described($0) } ?? .text("unknown"),
                .method: .bytes(response.cseq.method.name), .realm: .bytes(realm ?? .empty),
                .status: .number(Int(response.status.code)), .callID: .bytes(response.callID),
                .suppressed: .number(suppressed),
            ])
    }

    /// Remembers the phones of an answered call, so that a later INVITE with Replaces finds them.
    private func noteDialog(_ response: SIPResponse, _ leg: BranchLeg) {
        if let device = leg.call.fork.branches[leg.branch].addressee, let tag = response.to.tag {
            dialogs.devices.note(device, callID: response.callID, tag: tag)
        }
        guard !leg.call.isTrusted, let sender = leg.call.sender,
            let device = registrar.bindings.device(of: sender, where: { $0 == leg.call.source }),
            let tag = revive(leg.call)?.request.from.tag
        else { return }
        dialogs.devices.note(device, callID: response.callID, tag: tag)
    }

    /// The response without identity header fields: without fields that the sender must not set, and without fields
    /// that the caller must not see (T9.7).
    private func stripped(_ response: SIPResponse, of leg: BranchLeg) -> SIPResponse {
        guard let flow = leg.call.fork.branches[leg.branch].flow, isTrusted(flow) else {
            return response.without(settings.stripped)
        }
        guard response.frame.contains(.pAssertedIdentity), CallerIdentity.wantsIDPrivacy(response.frame),
            !leg.call.isTrusted
        else { return response }
        return response.without(Self.privateIdentity)
    }

    /// The filter that removes P-Asserted-Identity from responses with `Privacy: id` (RFC 3325 section 7).
    private static let privateIdentity = HeaderFilter([.pAssertedIdentity], names: [])

    /// Notes that a phone is awake, because a response came from the phone. A 408, 430 or 503 is no sign that the phone
    /// is awake, because an edge may have sent it.
    func noteReturned(_ leg: BranchLeg, _ status: Status, now: Moment) {
        guard status != .requestTimeout, status != .flowFailed, status != .serviceUnavailable,
            let device = leg.call.fork.branches[leg.branch].device
        else { return }
        wakes.records.returned(device, now: now.instant)
    }

    /// Handles a response from the destination of a forwarded call: if the destination rings or has answered, the call
    /// stops waiting for phones.
    func noteForwardHeard(_ leg: BranchLeg, _ status: Status, now: Moment) {
        let call = leg.call
        guard call.fork.isForwardPending, call.fork.isForward(leg.branch), (180..<300).contains(status.code) else {
            return
        }
        output.timers.cancel(call.stopsWaiting())
        ledger.ended(leg.branch, of: call, .forwarded, now: now, into: &output.actions)
        for branch in call.fork.branches.indices where call.fork.branches[branch].isWaiting {
            missed(branch, of: call, now: now)
            ledger.ended(branch, of: call, .forwarded, now: now, into: &output.actions)
        }
    }

    func responseRefused(
        _ response: SIPResponse, on flow: Flow, to match: TransactionTable.ClientMatch, now: Moment
    ) {
        output.counters.count(.rejectedStrayed)
        guard let suppressed = access.refusals.strayed(now: now.instant) else { return }
        log.notice(
            "a response was refused, because it did not come from the address to which the daemon sent the request",
            [
                .source: .described(flow.remote),
                .target: .described(sip.transactions.flow(of: match)?.remote ?? flow.remote),
                .status: .number(Int(response.status.code)), .method: .text(name(of: response.cseq.method)),
                .callID: .bytes(response.callID), .suppressed: .number(suppressed),
            ])
    }

    private func name(of method: Method) -> String {
        var name: [UInt8] = []
        method.append(to: &name)
        return String(decoding: name, as: UTF8.self)
    }

    // MARK: No response

    /// Handles the failure of a request: the next hop did not respond, or could not be reached.
    func legFailed(_ client: ClientTransactionID, with status: Status, now: Moment) {
        switch sip.legs[client] {
        case .branch(let leg)?: legFailed(client, leg, with: status, now: now)
        case .farewell?: farewellEnded(client, now: now)
        case .answered?: break
        case .question?: questionFailed(client, wasSent: status == .requestTimeout, now: now)
        case .registration(let number)?: registrationFailed(number, client, now: now)
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
            update(leg.call, now: now) { $0.silenced(leg.branch) }
        } else {
            branchFailed(leg.branch, of: leg.call, with: status, now: now)
        }
    }

    func legEnded(_ client: ClientTransactionID) {
        guard let leg = sip.legs.end(client) else { return }
        leg.call.fork.formerEnded(client, of: leg.branch)
        calls.forgetIfDone(leg.call)
    }

    /// Lets a branch wait for a phone that sent no response to the INVITE and may have left its flow; returns false if
    /// the branch cannot wait.
    func staysSilent(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let userCall = leg.call.userCall, leg.call.fork.acceptsBranches, now.instant < userCall.holdUntil,
            !leg.call.fork.branches[leg.branch].wasHeard, let target = target(of: leg, now: now)
        else { return false }
        leg.call.fork.recalled(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    // MARK: Requests whose flow to the device has failed

    /// Handles a 430, by which an edge reports that the flow to the phone has ended (RFC 5626 section 5.3.1).
    ///
    /// After a 430, the request is sent on the next flow of the device, or waits for the device if a push can wake it,
    /// or fails with 480.
    ///
    /// - Returns: false if the 430 must be treated like other final responses.
    func flowFailed(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        let branch = leg.call.fork.branches[leg.branch]
        guard let flow = branch.flow, isTrusted(flow), branch.addressee != nil, leg.call.delivery == nil else {
            return false
        }
        if goesOn(by: client, leg, now: now) || sleeps(leg, now: now) { return true }
        branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        return true
    }

    /// Lets a branch wait for its phone, because an edge reports that the phone's flow has ended; returns false if no
    /// push can wake the phone.
    func sleeps(_ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.userCall != nil, leg.call.fork.acceptsBranches, let target = target(of: leg, now: now),
            target.canBeWoken
        else { return false }
        leg.call.fork.recalled(leg.branch)
        waitAgain(leg.branch, of: leg.call, for: target, now: now)
        return true
    }

    // MARK: The device has the INVITE twice

    /// Handles a 482. A phone that has moved to a new address sends 482 if it got the INVITE on its old and its new
    /// flow.
    ///
    /// - Returns: whether the branch continues; if the result is false, the 482 is the final response of the branch.
    func loopReported(_ leg: BranchLeg, now: Moment) -> Bool {
        guard let target = target(of: leg, now: now) else { return false }
        switch leg.call.fork.loopReported(on: leg.branch) {
        case .isFinal: return false
        case .repeatNow: repeatCall(leg, now: now)
        case .takeBack(let client):
            withTransactions { table, out in
                if target.path.isEmpty, !target.flow.isClosed {
                    table.move(client, to: target.flow, now: now.instant, into: &out)
                }
                table.cancel(client, peerHasIt: true, reasons: [], now: now.instant, into: &out)
            }
        }
        return true
    }

    /// Sends an INVITE again if its branch has waited for the end of the cancelled transaction (state `takingBack`).
    ///
    /// - Returns: whether the branch was in the state `takingBack`.
    func wasTakenBack(_ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.fork.takenBack(leg.branch, client) else { return false }
        repeatCall(leg, now: now)
        return true
    }

    private func repeatCall(_ leg: BranchLeg, now: Moment) {
        guard let target = target(of: leg, now: now) else {
            return branchFailed(leg.branch, of: leg.call, with: .temporarilyUnavailable, now: now)
        }
        if hop(to: target).isOpen {
            deliver(leg.branch, of: leg.call, to: target, now: now)
        } else {
            waitAgain(leg.branch, of: leg.call, for: target, now: now)
        }
    }

    // MARK: Former transactions

    /// Notes that an earlier transaction of a branch failed, or got a response other than 2xx. The branch itself
    /// continues.
    func formerSpoke(_ status: Status, _ client: ClientTransactionID, _ leg: BranchLeg, now: Moment) {
        update(leg.call, now: now) { fork in
            fork.formerSpoke(status, client, of: leg.branch)
            return []
        }
    }

    // MARK: Responses to our own OPTIONS

    func questionAnswered(_ question: Question, _ response: SIPResponse, of client: ClientTransactionID, now: Moment) {
        switch question {
        // A phone's response shows that the phone is awake, so `noteLife` releases the calls that wait for the phone.
        case .phone: if response.status.isFinal { output.counters.count(.phoneAnswered) }
        case .upstream(let place):
            if response.status.isFinal { _ = sip.legs.endQuestion(client) }
            upstreamAnswered(at: place, now: now)
        case .pbx(let number, let place):
            if response.status.isFinal { _ = sip.legs.endQuestion(client) }
            pbxAnswered(number, at: place, isProbe: true, now: now)
        case .ourselves:
            if response.status.isFinal { _ = sip.legs.endQuestion(client) }
            ownNameAnswered()
        case .node: if response.status.isFinal { _ = sip.legs.endQuestion(client) }
        }
    }

    /// Handles the failure of an OPTIONS from this proxy: no response came in time, or the connection could not be
    /// opened.
    func questionFailed(_ client: ClientTransactionID, wasSent: Bool, now: Moment) {
        switch sip.legs.endQuestion(client) {
        case .upstream(let place)?: upstreamIsSilent(at: place, wasSent: wasSent, now: now)
        case .pbx(let number, let place)?: pbxIsSilent(number, at: place, wasSent: wasSent, now: now)
        case .ourselves(let place)?: ownNameFailed(at: place)
        // A lost NOTIFY is no failure, because the other node also asks the store (`nodesDue`).
        case .phone?, .node?, nil: break
        }
    }
}

extension ProxyEngine {
    /// Handles an INVITE that rang until Timer C fired (RFC 3261 section 16.8): the phone gets a CANCEL, and the branch
    /// ends with 408.
    func legRangTooLong(_ client: ClientTransactionID, now: Moment) {
        guard let leg = sip.legs.branch(client) else { return }
        if leg.isFormer(client) {
            withTransactions { $0.transportFailed(client, now: now.instant, into: &$1) }
            return
        }
        let reasons = [ByteString("SIP;cause=408;text=\"Request Timeout\"")]
        withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        branchFailed(leg.branch, of: leg.call, with: .requestTimeout, now: now)
    }
}
