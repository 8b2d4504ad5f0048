import AccessLimits
import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

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
        // The daemon ignores a provisional response without a Via for the caller (RFC 3261 section 16.7 item 3). A
        // final response without a Via for the caller counts, because some phones answer a cancelled INVITE with only
        // the Via of this proxy's CANCEL.
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

    /// The response without identity header fields that its sender is not allowed to set, or that the caller is not
    /// allowed to see (T9.7).
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

    // MARK: Responses to our own OPTIONS

    func questionAnswered(_ question: Question, _ response: SIPResponse, of client: ClientTransactionID, now: Moment) {
        switch question {
        // A phone's response is a sign of life on its flow, so `noteLife` releases the calls that wait for the phone.
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
        }
    }

    /// Handles the failure of an OPTIONS from this proxy: no response came in time, or the connection could not be
    /// opened.
    func questionFailed(_ client: ClientTransactionID, wasSent: Bool, now: Moment) {
        switch sip.legs.endQuestion(client) {
        case .upstream(let place)?: upstreamIsSilent(at: place, wasSent: wasSent, now: now)
        case .pbx(let number, let place)?: pbxIsSilent(number, at: place, wasSent: wasSent, now: now)
        case .ourselves(let place)?: ownNameFailed(at: place)
        case .phone?, nil: break
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
