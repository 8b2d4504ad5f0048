import Addressing
import Bytes
package import Calling
import Collections
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import ServiceEvents
import Telemetry
package import Timekeeping
import Waking

/// Continues the calls of the daemon's earlier run: their transactions, branches, waits and pushes.
extension ProxyEngine {
    /// Continues a call from the journal of the daemon's earlier run, or of another node. If the call cannot continue,
    /// it becomes a missed call.
    ///
    /// The journal's calls are restored after all bindings, and before ``restored(now:)`` is called.
    package func restore(_ stored: StoredCall, now: Moment) {
        let request = functions.reread(stored.request)
        if let request, request.method == .invite {
            share(stored, callID: request.callID)
            restoreMissedCall(stored, request, now: now)
            if resume(stored, request, now: now) { return }
            if let userCall = stored.userCall {
                let caller = CallerIdentity(request, format: settings.call.callerIDFormat)
                output.events.lost(
                    stored, userCall, callID: request.callID, from: caller.remoteURI, now: now, into: &output.actions)
                ledger.ended(userCall, into: &output.actions)
                if let key = stored.heldKey(callID: request.callID) { withdraw(key) }
            }
        }
        act(.journal(.over(call: stored.id)))
    }

    /// Writes the state of a call, which the store has for the other nodes, as the first state of this run.
    private func share(_ stored: StoredCall, callID: ByteString) {
        guard network.flows.haveNodes, stored.isInStore, let call = stored.named(callID),
            let key = call.heldKey(callID: callID)
        else { return }
        network.held.stores(key)
        act(.journal(.begun(call)))
    }

    private func resume(_ stored: StoredCall, _ request: SIPRequest, now: Moment) -> Bool {
        guard let listener = identity.listener(stored.source.listener),
            listener.transport == stored.source.transport
        else { return false }
        // The caller's flow is treated as closed, because the caller's connection ended with the daemon's earlier run.
        let incoming = IncomingRequest(request, on: stored.source.closed, isTrusted: stored.isTrusted)
            .proved(by: stored.sender)
        guard
            let server = sip.resume(
                request, respondOn: wayBack(to: incoming), now: now.instant)
        else { return false }
        let userCall = stored.userCall.map { self.offer($0, of: stored, request, now: now) }
        let call = calls.resume(stored, incoming, server, userCall: userCall, parties: parties(of: stored, request))
        if incoming.flow.isClosed {
            if let phone = phone(of: incoming) {
                wakes.waits(callerOf: call, for: phone)
            } else if call.isTrusted {
                calls.isAway(callerOf: call)
            }
            if !network.flows.cameFromNode(incoming.flow) { lookUpCaller(of: call, incoming) }
        }
        output.counters.count(.callResumed)
        resume(call, stored, incoming, now: now)
        return true
    }

    private func offer(_ stored: StoredUserCall, of call: StoredCall, _ request: SIPRequest, now: Moment) -> UserCall {
        UserCall(
            ref: stored.callRef,
            key: UserCallKey(aor: stored.aor, callID: request.callID, fromTag: request.from.tag ?? .empty),
            receivedAt: call.receivedAt, pushDeadline: stored.holdUntil,
            holdUntil: now.instant + min(max(stored.holdUntil - now.date, .zero), holdTime(of: request)),
            caller: caller(of: call, request), mayPush: stored.mayPush)
    }

    private func parties(of stored: StoredCall, _ request: SIPRequest) -> HeldShares.Parties {
        HeldShares.Parties(
            caller: caller(of: stored, request), callee: stored.userCall?.aor.shareNumber,
            tenant: share(of: stored.userCall?.aor.host ?? stored.sender?.host ?? identity.home(of: request.from.uri)))
    }

    private func caller(of stored: StoredCall, _ request: SIPRequest) -> Caller {
        if !stored.isTrusted, let user = stored.sender { return Caller(user: user) }
        return Caller(of: request, on: stored.source, isTrusted: stored.isTrusted)
    }

    /// The flow for a resumed call's responses until the caller connects again.
    ///
    /// To another node, and to a trusted peer over TCP, the daemon opens a connection to the port in the peer's Via (RFC
    /// 3261 section 18.2.2). To a phone, the daemon opens no connection, because a phone's Via may name any port.
    private func wayBack(to incoming: IncomingRequest) -> Flow {
        if network.flows.cameFromNode(incoming.flow), let flow = network.flows.nodeFlow(to: incoming.request.via) {
            return flow
        }
        guard incoming.flow.transport == .tcp, incoming.isTrusted else { return incoming.responseFlow }
        let endpoint = Endpoint(incoming.flow.remote.address, incoming.request.via.port ?? 5060)
        guard !identity.isOurs(.tcp, endpoint) else { return incoming.responseFlow }
        return Flow(transport: .tcp, listener: incoming.flow.listener, connection: 0, remote: endpoint)
    }

    /// The id of the phone that made a resumed call. When the phone connects again, the daemon sends the responses to
    /// the phone's INVITE on the new flow.
    private func phone(of incoming: IncomingRequest) -> DeviceID? {
        guard !incoming.isTrusted, let user = identity.callingUser(of: incoming) else { return nil }
        return registrar.bindings.device(of: user) { $0.remote == incoming.flow.remote }
    }

    private func resume(_ call: ProxiedRequest, _ stored: StoredCall, _ incoming: IncomingRequest, now: Moment) {
        guard let server = call.server else { return }
        log.info(
            "a call continues after the end of the daemon that had the call",
            [
                .aor: .text(stored.userCall?.aor.description ?? ""), .callID: .bytes(incoming.request.callID),
                .count: .number(stored.branches.count),
            ])
        if let userCall = call.userCall {
            resume(userCall, of: call, stored, now: now)
        } else if let request = dialogRequest(incoming, stored, now: now) {
            call.turned(into: .dialog(request))
        } else if stored.final.isEmpty, !call.fork.wasAnswered, !incoming.isTrusted, incoming.request.to.tag == nil,
            case .initial(let next) = route(of: incoming.request)
        {
            outgoingBegan(call, incoming, next, since: stored.receivedAt, now: now)
        }
        if !stored.final.isEmpty {
            // The final response is sent again, because the caller may not have received the response.
            withTransactions {
                $0.respond(server, status: stored.final.status, bytes: stored.final.array, now: now.instant, into: &$1)
            }
        } else if call.fork.wasAnswered {
            withTransactions { $0.respond(server, status: .ok, bytes: [], now: now.instant, into: &$1) }
            keepAnswered(call, now: now)
        }
        call.resumed(from: stored)
        for index in call.fork.branches.indices {
            resume(index, of: call, stored.branches[index], incoming, now: now)
        }
        if call.fork.branches.contains(where: \.isDelayed) { sip.unsettled.append(turnOf: call) }
        forwardResumed(call, now: now)
        update(call, now: now) { $0.resumed() }
    }

    /// Lists a resumed call as waiting for its devices, and continues the call's timeline records.
    private func resume(_ userCall: UserCall, of call: ProxiedRequest, _ stored: StoredCall, now: Moment) {
        for index in call.fork.branches.indices
        where !call.fork.branches[index].isEnded && !stored.branches[index].isOfferedAgain {
            list(index, of: call)
            noteResumed(index, of: call, stored.branches[index], userCall, now: now)
        }
    }

    /// Adds a resumed call to the missed calls of its devices, because the store has no row for an active call. The
    /// entry is removed if the call is answered.
    ///
    /// An answered or refused call is skipped, because the store already has the result of the call.
    private func restoreMissedCall(_ stored: StoredCall, _ request: SIPRequest, now: Moment) {
        guard let userCall = stored.userCall, stored.final.isEmpty,
            !Fork(resuming: stored).isAnsweredOrForwarded
        else { return }
        let devices = stored.branches.compactMap(\.device).filter {
            registrar.bindings.forkTarget($0, now: now.instant)?.canBeWoken == true
        }
        let caller = CallerIdentity(request, format: settings.call.callerIDFormat)
        ledger.resumed(
            stored, userCall, from: caller, by: self.caller(of: stored, request), devices: Set(devices),
            into: &output.actions)
    }

    private func noteResumed(
        _ index: Int, of call: ProxiedRequest, _ stored: StoredCall.Branch, _ userCall: UserCall, now: Moment
    ) {
        // A branch whose push is sent again gets a new timeline record, so its old record is not continued.
        guard let device = stored.device, !mayPushAgain(stored, userCall) else { return }
        if stored.stage == .delayed {
            return ledger.began(
                index, of: call, userCall, device, .delayed, app: "", reason: "for other devices",
                since: userCall.receivedAt, now: now)
        }
        ledger.resumed(
            index, of: call, userCall, device, stored.code,
            app: registrar.bindings.pushToken(of: device)?.provider.rawValue ?? "", wasAccepted: stored.wasWoken,
            now: now)
    }

    /// Whether the push of a resumed branch is sent again, with the same code, because the daemon's earlier run may not
    /// have sent the push.
    private func mayPushAgain(_ stored: StoredCall.Branch, _ userCall: UserCall) -> Bool {
        stored.stage == .waiting && stored.code != nil && !stored.wasWoken && userCall.mayPush
    }

    // MARK: Branches

    private func resume(
        _ index: Int, of call: ProxiedRequest, _ stored: StoredCall.Branch, _ incoming: IncomingRequest, now: Moment
    ) {
        takeUpFormer(stored, index, of: call, incoming, now: now)
        let way = stored.sent.flatMap { wayAgain(for: $0, index, of: call, now: now) }
        switch (stored.stage, stored.sent) {
        // The turn of the device is computed later, when all branches are resumed.
        case (.delayed, _): break
        case (.ended, let sent?) where stored.end == .succeeded:
            // The transaction is resumed, because the phone may repeat its 2xx.
            take(up: sent, index, of: call, incoming, .answered, now: now)
        case (.ended, _): break
        case (.called, var sent?) where way != nil:
            sent.flow = way ?? sent.flow
            // The node that has the INVITE also accepts the CANCEL alone. A phone must not ring for a cancelled call.
            let isCancelledAtNode = call.fork.branches[index].end != nil && network.flows.isToNode(sent.flow)
            take(up: sent, index, of: call, incoming, isCancelledAtNode ? .silent : .sendingAgain, now: now)
            if call.dialogRequest != nil || call.userCall != nil { armSilence(of: call, now: now) }
        case (.called, let sent?) where goesToUpstreamByTLS(sent.flow, of: call):
            // The upstream's name is looked up again, because the server's certificate must contain the upstream's
            // name.
            if let upstream = upstream(of: home(of: call))?.hop {
                lookUp(upstream, toSend: .again(sent), for: index, of: call)
            }
        case _ where call.fork.isClosing: branchFailed(index, of: call, with: .requestTerminated, now: now)
        case (_, let sent?):
            // The transaction is resumed, because the phone may have the INVITE and may answer on its next connection.
            take(up: sent, index, of: call, incoming, .silent, now: now)
            wait(index, of: call, stored, incoming, now: now)
        case (_, nil):
            call.fork.waits(index)
            wait(index, of: call, stored, incoming, now: now)
        }
    }

    /// Resumes the transactions of INVITEs that the daemon's earlier run sent on flows that the phone has left, because
    /// a phone can still answer there with 2xx.
    private func takeUpFormer(
        _ stored: StoredCall.Branch, _ index: Int, of call: ProxiedRequest, _ incoming: IncomingRequest, now: Moment
    ) {
        let hasAnswered = stored.stage == .ended && stored.end == .succeeded
        guard let sent = stored.sent, hasAnswered || stored.stage != .ended && !call.fork.isClosing else { return }
        for via in stored.former.reversed() {
            let earlier = StoredCall.SentINVITE(
                via: via, requestURI: sent.requestURI, routes: sent.routes, flow: sent.flow.closed)
            take(up: earlier, index, of: call, incoming, hasAnswered ? .answered : .silent, now: now)
        }
    }

    /// The flow on which an INVITE of an earlier run can be sent again; `nil` if its flow has ended. Another node that
    /// had forwarded the INVITE to its phone takes the INVITE as a retransmission.
    private func wayAgain(
        for sent: StoredCall.SentINVITE, _ index: Int, of call: ProxiedRequest, now: Moment
    ) -> Flow? {
        if let flow = network.flows.nodeFlow(by: sent.routes) { return flow }
        let target = call.fork.branches[index].addressee.flatMap { registrar.bindings.forkTarget($0, now: now.instant) }
        // The flow was at a node that has ended, or the phone has moved to another node.
        if let target, network.flows.hasLostNode(target.path) || network.flows.isAtOtherNode(target.path) { return nil }
        return isWayOpen(sent.flow, of: call) ? sent.flow : nil
    }

    /// Whether the daemon can use a flow of its earlier run again: the flow is UDP, or the daemon can open a new
    /// connection (connection number 0).
    private func isWayOpen(_ flow: Flow, of call: ProxiedRequest) -> Bool {
        !flow.transport.isReliable || flow.transport == .tcp && flow.connection == 0
            || goesToUpstreamByTLS(flow, of: call) && upstream(of: home(of: call))?.hop.numeric != nil
    }

    private func goesToUpstreamByTLS(_ flow: Flow, of call: ProxiedRequest) -> Bool {
        call.userCall == nil && call.dialogRequest == nil && flow.transport == .tls && flow.connection == 0
            && upstream(of: home(of: call)) != nil
    }

    /// Sends a resumed INVITE again over TLS to the address that the upstream had in the daemon's earlier run, with the
    /// server name of the new look-up.
    func sendAgain(
        _ sent: StoredCall.SentINVITE, _ index: Int, of call: ProxiedRequest, _ incoming: IncomingRequest,
        to hops: [ResolvedHop], now: Moment
    ) {
        guard let hop = hops.first(where: { $0.transport == .tls }) else {
            return branchFailed(index, of: call, with: .serviceUnavailable, now: now)
        }
        var sent = sent
        sent.flow = Flow(
            transport: .tls, listener: sent.flow.listener, connection: 0, remote: sent.flow.remote, server: hop.server)
        take(up: sent, index, of: call, incoming, .sendingAgain, now: now)
    }

    /// Resumes the client transaction of an INVITE from the daemon's earlier run; with `.sendingAgain`, the daemon
    /// sends the same INVITE again.
    ///
    /// If a phone already has the INVITE, it repeats its last response. If not, the phone treats the repeated INVITE as
    /// a new INVITE.
    private func take(
        up sent: StoredCall.SentINVITE, _ index: Int, of call: ProxiedRequest, _ incoming: IncomingRequest,
        _ resumption: TransactionTable.Resumption, now: Moment
    ) {
        let branch = call.fork.branches[index]
        guard let text = RequestValidation.branch(in: sent.via) else { return call.fork.waits(index) }
        let outgoing = again(sent, of: call, to: branch, incoming, now: now)
        var client: ClientTransactionID?
        withTransactions {
            client = $0.resume(outgoing, branch: text, on: sent.flow, resumption, now: now.instant, into: &$1)
        }
        guard let client else { return branchFailed(index, of: call, with: .serviceUnavailable, now: now) }
        sip.legs.start(client, BranchLeg(call, branch: index, detour: nil))
        guard !branch.isEnded else { return }
        call.fork.aimed(index, routeHash: routeHash(of: sent, to: branch, now: now))
        self.sent(index, of: call, as: client, on: sent.flow)
        ledger.invited(call.fork.branches[index], now: now)
        if case .cancelled(let reason)? = branch.end {
            let fields = reason.fields(callerReasons: [])
            withTransactions {
                $0.cancel(client, peerHasIt: resumption == .silent, reasons: fields, now: now.instant, into: &$1)
            }
        } else if resumption == .silent {
            sip.connectionEnded(of: client)
            call.fork.recalled(index)
        }
    }

    /// The INVITE exactly as it was sent before, except that its dialog tokens are encrypted again.
    func again(
        _ sent: StoredCall.SentINVITE, of call: ProxiedRequest, to branch: ForkBranch, _ incoming: IncomingRequest,
        now: Moment
    ) -> OutgoingRequest {
        let maxForwards = incoming.request.maxForwards ?? 71
        var edits = RequestEdits(
            requestURI: sent.requestURI, via: sent.via, maxForwards: maxForwards == 0 ? 0 : maxForwards &- 1)
        edits.routes = sent.routes
        edits.topViaAddition = incoming.viaAddition
        edits.maxBreadth = UInt32(call.breadth)
        if let userCall = call.userCall, branch.device == nil {
            addDiversion(&edits, incoming, of: userCall)
        } else if call.userCall == nil {
            edits.added = identity(of: incoming)
        } else if CallerIdentity.wantsIDPrivacy(incoming.request.frame) {
            edits.removed = [.pAssertedIdentity]
        }
        strip(&edits, of: incoming, to: sent.flow.remote)
        if incoming.request.makesDialog {
            edits.recordRoutes = recordRoutes(incoming, edits, to: sent.flow, device: branch.addressee, now: now)
        }
        return incoming.request.forwarded(edits)
    }

    /// The ``ForkTarget/routeHash`` of the Path or flow on which the daemon's earlier run sent the INVITE.
    private func routeHash(of sent: StoredCall.SentINVITE, to branch: ForkBranch, now: Moment) -> Int {
        let target = branch.addressee.flatMap { registrar.bindings.forkTarget($0, now: now.instant) }
        if let target, !target.path.isEmpty, target.path == sent.routes { return target.routeHash }
        return sent.flow.hashValue
    }

    /// Lets a resumed branch wait for its phone, because the phone's connection has ended.
    private func wait(
        _ index: Int, of call: ProxiedRequest, _ stored: StoredCall.Branch, _ incoming: IncomingRequest, now: Moment
    ) {
        guard let userCall = call.userCall else { return goOn(call, stored, incoming, now: now) }
        guard
            let target = (stored.contact ?? stored.device).flatMap({
                registrar.bindings.forkTarget($0, now: now.instant)
            })
        else { return branchFailed(index, of: call, with: .temporarilyUnavailable, now: now) }
        if call.deadline == .none {
            call.waits(
                until: output.timers.schedule(
                    .holdDeadline(place: call.place), at: max(userCall.holdUntil, now.instant)))
        }
        if stored.isOfferedAgain {
            let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
            let treatment = treatment(of: target, now: now)
            return offer(userCall, to: target, treatment, branch: index, of: call, incoming, caller, now: now)
        }
        if mayPushAgain(stored, userCall), let token = target.pushToken {
            let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
            let nonce = nonceForPush(to: userCall.aor, now: now)
            ledger.wake(
                target, token, for: index, of: call, userCall, caller, again: stored.code, nonce: nonce, now: now,
                into: &output.actions)
        }
        if stored.stage == .waiting, !hasReturnedElsewhere(target, since: userCall) { return watch(target) }
        if hop(to: target).isOpen {
            deliver(index, of: call, to: target, now: now)
        } else {
            waitAgain(index, of: call, for: target, now: now)
        }
    }

    /// Whether a phone has registered at another node since its call began. The earlier run may have ended before it knew.
    private func hasReturnedElsewhere(_ target: ForkTarget, since userCall: UserCall) -> Bool {
        network.flows.isAtOtherNode(target.path) && target.registeredAt > userCall.receivedAt
    }

    // MARK: Calls to the upstream and in dialogs

    /// The dialog and the phone of a resumed re-INVITE; `nil` if the INVITE is outside a dialog, or if no push can wake
    /// its phone.
    private func dialogRequest(_ incoming: IncomingRequest, _ stored: StoredCall, now: Moment) -> DialogRequest? {
        guard case .dialog(let pass, let next) = route(of: incoming.request),
            let request = dialogRequest(
                incoming, pass, withoutGRUU(next, pass, now: now), from: caller(of: incoming, pass))
        else { return nil }
        if stored.branches.first?.wasWoken == true { request.wokePhone() }
        request.waits(until: now.instant + max(stored.receivedAt + settings.call.ringTimeout - now.date, .zero))
        return request
    }

    /// Sends a resumed INVITE to the upstream, or to the other side of its dialog. The INVITE is routed like a new
    /// INVITE.
    private func goOn(_ call: ProxiedRequest, _ stored: StoredCall.Branch, _ incoming: IncomingRequest, now: Moment) {
        switch (route(of: incoming.request), call.dialogRequest) {
        case (.dialog, let request?):
            send(incoming, request, of: call, again: stored.code, now: now)
        case (.dialog(let pass, let next), nil):
            let next = withoutGRUU(next, pass, now: now)
            guard let hop = dialogHop(pass, next, now: now) else {
                return branchFailed(0, of: call, with: .temporarilyUnavailable, now: now)
            }
            forward(incoming, next, of: call, on: hop, pass, now: now)
        case (.initial(let next), _):
            guard let upstream = upstream(of: home(of: call))?.hop else {
                return branchFailed(0, of: call, with: .serviceUnavailable, now: now)
            }
            send(incoming, next, of: call, upstream: upstream, now: now)
        case (.forged, _): branchFailed(0, of: call, with: .callDoesNotExist, now: now)
        }
    }

    // MARK: Callers that come back

    /// Looks up the host name in the Via of a trusted peer that called over TLS (RFC 3261 section 18.2.2, RFC 3263
    /// section 5). Responses after a restart need a new connection to the peer, whose certificate must prove the host
    /// name in Via.
    func lookUpCaller(of call: ProxiedRequest, _ incoming: IncomingRequest) {
        guard incoming.flow.transport == .tls, incoming.isTrusted else { return }
        let via = incoming.request.via
        lookUp(NextHop(host: via.host, port: via.port, transport: .tls, isSecure: false), for: .caller(call))
    }
}

extension ByteString {
    /// The status code of a response that the daemon has written, read from the response's bytes.
    fileprivate var status: Status {
        count > 12 ? Status(code: self[8..<11].decimal(as: UInt16.self) ?? 500) : .serverError
    }
}
