import AccessLimits
package import Addressing
package import Bytes
import Calling
import Collections
import LocationService
import Messaging
import ProxyPolicy
package import PushDelivery
import PushPlanning
package import Registration
package import Routing
package import SIPGrammar
import SIPTransactions
import ServiceEvents
import Telemetry
package import Timekeeping
import UpstreamRegistration
import Waking

/// The methods through which the shell reports events to the engine.
extension ProxyEngine {
    /// Restores a stored binding at start-up. If the result is false, the caller must delete the binding from the
    /// store.
    package func restore(_ row: StoredBinding, now: Moment) -> Bool {
        guard registrar.restore(row, now: now) else { return false }
        if registrar.bindings.isFlow(row.id), row.path.isEmpty { toldFlowTimer([row.id], on: row.flow, now: now) }
        return true
    }

    /// Ends the start-up of the engine. The shell calls ``restored(now:)`` once, after it has restored all bindings and
    /// calls.
    package func restored(now: Moment) {
        armAwayCallers(now: now)
        ledger.started(now: now, into: &output.actions)
        restoreMissedCalls(now: now)
        restore(messages.takeStored(), now: now)
        ledger.refreshes.started(now: now.instant)
        armRefreshPushes(now: now)
        watchUpstream(since: now.instant)
        findUpstreamUsers(now: now)
        noteUnfitContacts()
        readKeys(now: now)
        settle(now: now)
    }

    package func requestReceived(_ request: SIPRequest, on flow: Flow, now: Moment) {
        let incoming = IncomingRequest(request, on: flow, isTrusted: isTrusted(flow))
        output.counters.count(Counter(request.method))
        if flow.isConnection {
            noteReuse(incoming)
            if !calls.away.isEmpty { peerReturned(incoming) }
        }
        if network.flows.isOfNode(flow) { nodeRepeats(request, on: flow) }
        // A trusted peer's request gets its transaction before the checks. A request of any other sender gets a
        // transaction only after all checks, so that a challenge or refusal needs no state (T4.2).
        let isUnderPressure = access.admission.isUnderPressure
        let match = sip.requestReceived(
            request, beginningOn: incoming.isTrusted && !isUnderPressure ? incoming.responseFlow : nil,
            now: now.instant)
        switch match {
        case .new(let key, let server):
            let incoming = incoming.unmatched(key, server)
            if !isUnderPressure || !isRefusedForLoad(incoming, now: now) { dispatch(incoming, now: now) }
        case .cancel(let key, _) where cancelledWhileReading(incoming.unmatched(key), now: now): break
        case .cancel(let key, nil) where passedOn(incoming.unmatched(key), now: now): break
        case .cancel(let key, let invite?): cancelReceived(incoming.unmatched(key), of: invite, now: now)
        case .cancel(let key, nil) where waitsForCall(incoming.unmatched(key), now: now): break
        case .cancel(let key, nil): dispatch(incoming.unmatched(key), now: now)
        case .endToEndACK where network.flows.isOfNode(flow): nodeACKReceived(incoming, now: now)
        case .endToEndACK: if !reads(before: incoming, now: now) { ackReceived(incoming, now: now) }
        case .unanswered(let server):
            // The daemon builds the 100 to a retransmission from the stored request, because anybody who knows the
            // branch parameter can forge a retransmission.
            if let incoming = calls.call(of: server).flatMap(revive) { sendTrying(incoming, now: now) }
        case .acknowledged(let server): journalOver(server)
        case .absorbed: break
        }
        if request.method != .register { noteLife(on: flow, by: .request, now: now) }
        settle(now: now)
    }

    package func responseReceived(_ response: SIPResponse, on flow: Flow, now: Moment) {
        var isOurs = false
        if let match = sip.transactions.client(of: response) {
            if sip.transactions.accepts(responseFrom: flow, to: match, by: sender(on: flow, of: match.client)) {
                isOurs = true
                sip.responseReceived(response, of: match, now: now.instant)
                settle(now: now)
            } else {
                responseRefused(response, on: flow, to: match, now: now)
            }
        }
        noteLife(on: flow, by: .response, isProved: isOurs, now: now)
        settle(now: now)
    }

    /// Handles a message that is malformed or too large, and answers it without a transaction if possible.
    package func unusableReceived(_ message: UnusableMessage, on flow: Flow, now: Moment) {
        output.counters.count(Counter(message.reason))
        guard let answer = message.answer else { return }
        output.counters.count(Counter(answer.status))
        noteMalformed(answer.frame, answer.status, on: flow, now: now)
        let via = answer.frame.viaAddition(source: flow.remote)
        let bytes = answer.frame.response(answer.status, toTag: sip.tags.next(), viaAddition: via, fields: [])
        guard isTrusted(flow) || bytes.count <= flow.answerLimit(to: answer.frame) else { return }
        act(.send(bytes, on: flow))
    }

    package func deadlineReached(now: Moment) {
        sip.deadlineReached(now: now.instant)
        settle(now: now)
        while let timer = output.timers.popExpired(now: now.instant) {
            switch timer {
            case .holdDeadline(let place): if let call = calls.call(at: place) { holdDeadlineReached(call, now: now) }
            case .bookkeepingDue: bookkeepingDue(now: now)
            case .endedCallDue: endedCallDue(now: now)
            case .journalDue: journalDue(now: now)
            case .awayCallersDue:
                calls.callersGivenUp()
                wakes.callersGivenUp()
            case .messageDue(let id): messageDue(id, now: now)
            case .refreshScanDue: refreshScanDue(now: now)
            case .reliefDue: reliefDue(now: now.instant)
            case .flowTimersDue: flowTimersDue(now: now)
            case .refusalsDue: refusalsDue(now: now)
            case .usersDue: usersDue(now: now)
            case .keysDue: readKeys(now: now)
            case .nodesDue: nodesDue(now: now)
            case .dutiesDue:
                upstreamSearchDue(now: now)
                dutiesDue(now: now)
            case .cancelsDue: cancelsDue(now: now)
            case .silence(let place, let id):
                if let call = calls.call(at: place), call.id == id { silenceDue(of: call, now: now) }
            case .turnDue(let place, let id):
                if let call = calls.call(at: place), call.id == id {
                    noWakeGoesOn(turnDue(of: call, now: now), of: call, now: now)
                }
            case .wakeBound(let place, let id):
                if let call = calls.call(at: place), call.id == id { wakeBoundReached(call, now: now) }
            }
            settle(now: now)
        }
        upstreamDue(now: now)
        upstreamUsersDue(now: now)
        settle(now: now)
        ledger.timePassed(now: now, into: &output.actions)
        settlePushes(now: now)
        while let due = ledger.due(now: now, into: &output.actions) {
            wakes.listIsDue(of: due.device, now: now.instant)
            if !wakes.listWaits(for: due.device) { reportMissedCalls(to: due.device, of: due.aor, now: now) }
        }
        removeExpiredBindings(now: now)
    }

    // MARK: What follows

    /// Handles the results of transactions and forks until none are left.
    func settle(now: Moment) {
        while let work = sip.unsettled.takeNext() {
            switch work {
            case .output(let output): carryOut(output, now: now)
            case .deliveries(let ended): for delivery in ended { deliveryEnded(delivery, now: now) }
            case .forwards(let calls): for call in calls { forwardWanted(call, now: now) }
            case .turns(let calls):
                for call in calls { noWakeGoesOn(nextTurnWanted(of: call, now: now), of: call, now: now) }
            }
        }
    }

    /// Handles the results of all ended pushes, including pushes that end during the handling.
    private func settlePushes(now: Moment) {
        while let (push, outcome) = ledger.nextOutcome() {
            pushEnded(push, outcome, now: now)
            settle(now: now)
        }
        if output.events.isOn {
            output.events.push(ledger.dispatcher.takeAppChanges(), now: now, into: &output.actions)
        }
    }

    private func carryOut(_ output: TransactionOutput, now: Moment) {
        switch output {
        case .send(let bytes, let flow): act(.send(bytes, on: flow))
        case .responseReceived(let client, let response): received(response, of: client, now: now)
        case .clientTimedOut(let client): legFailed(client, with: .requestTimeout, now: now)
        case .clientRangTooLong(let client): legRangTooLong(client, now: now)
        case .clientTransportFailed(let client): legFailed(client, with: .serviceUnavailable, now: now)
        case .clientEnded(let client): legEnded(client)
        case .serverEnded(let server):
            journalOver(server)
            calls.serverEnded(server)
        case .provisionalDue(let server): provisionalDue(server, now: now)
        case .serverTimedOut, .strayResponse: break
        }
    }

    /// Checks a new request, and passes it on as a REGISTER, as a request inside a dialog, or as a request to a user.
    func dispatch(_ incoming: IncomingRequest, now: Moment) {
        let needsTransaction = incoming.isTrusted && incoming.server == nil
        guard let incoming = needsTransaction ? startTransaction(incoming, now: now) : incoming else { return }
        let request = incoming.request
        let isRegister = request.method == .register && identity.home(of: request.uri) != nil
        let isQuestion = isQuestionToUs(request)
        guard isFit(incoming, isForUs: isRegister || isQuestion, now: now) else { return }
        if network.flows.isOfNode(incoming.flow) { return nodeRequestReceived(incoming, now: now) }
        guard hasRead(incoming, now: now) else { return }
        if isRegister {
            registerReceived(incoming, now: now)
            return
        }
        if isQuestion {
            refuse(incoming, .ok, fields: Self.capabilities, now: now)
            return
        }
        let isCancel = request.method == .cancel
        switch route(of: request) {
        case .dialog(let pass, let next) where isCancel: dialogCancelReceived(incoming, pass, next, now: now)
        case .initial(let next) where isCancel: initialCancelReceived(incoming, next, now: now)
        case .forged where isCancel: refuse(incoming, .callDoesNotExist, now: now)
        case .dialog where Breadth.share(of: incoming.request, among: 1) == 0:
            refuse(incoming, .maxBreadthExceeded, because: .loop, now: now)
        case .dialog(let pass, let next): dialogRequestReceived(incoming, pass, next, now: now)
        case .initial(let next): initialRequestReceived(incoming, next, now: now)
        case .forged: refuse(incoming, .forbidden, because: .forgedRoute, now: now)
        }
    }

    /// Whether an OPTIONS is addressed to this daemon, or has Max-Forwards 0 (RFC 3261 sections 11 and 16.3 item 3).
    private func isQuestionToUs(_ request: SIPRequest) -> Bool {
        guard request.method == .options else { return false }
        return request.maxForwards == 0 || request.uri.user == nil && identity.isUs(request.uri)
    }

    /// Whether the daemon can serve a request; if the result is false, ``isFit`` has answered the request.
    private func isFit(_ incoming: IncomingRequest, isForUs: Bool, now: Moment) -> Bool {
        if let refusal = RequestValidation.check(
            incoming.request, fromTrusted: incoming.isTrusted, isForUs: isForUs,
            branchKey: sip.transactions.branchKey)
        {
            if incoming.request.method == .invite {
                noteRefused(incoming, refusal.status, because: refusal.cause, now: now)
            }
            refuse(incoming, refusal.status, fields: refusal.fields, now: now)
            return false
        }
        if incoming.request.uri.scheme == .sips, !incoming.flow.transport.isSecure {
            refuse(incoming, .temporarilyUnavailable, because: .notSecure, fields: [sipsNotAllowed], now: now)
            return false
        }
        return true
    }

    // MARK: The network

    /// Handles the result of a DNS look-up: `hops` has the best address first, and is empty if the look-up failed.
    package func resolved(_ ticket: ResolutionTicket, to hops: [ResolvedHop], now: Moment) {
        switch network.lookups.take(ticket) {
        case .branch(let branch, let call, let request, let hop)?:
            if hop == settings.upstream { network.upstream.resolved(to: hops) }
            guard call.fork.branches[branch].isResolving(ticket), let incoming = revive(call) else { return }
            switch request {
            case .new(let edits): found(hops, of: hop, for: branch, of: call, incoming, edits, now: now)
            case .again(let sent): sendAgain(sent, branch, of: call, incoming, to: hops, now: now)
            }
        case .caller(let call)?: callerFound(call, at: hops)
        case .upstream?: upstreamFound(hops, now: now)
        case .ownName?: ownNameFound(hops, now: now)
        case .pbx(let number)?: pbxFound(hops, number, now: now)
        case nil: break
        }
        settle(now: now)
    }

    /// Handles a keep-alive or another message on a flow.
    package func flowAlive(_ flow: Flow, now: Moment) {
        noteLife(on: flow, by: .keepAlive, now: now)
        settle(now: now)
    }

    /// Handles a stream connection that either side has closed.
    package func flowClosed(_ flow: Flow, now: Moment) {
        connectionEnded(flow, now: now)
        waitingEnded(on: flow, now: now)
        settle(now: now)
    }

    /// Handles a failure to send: the remote endpoint is unreachable, or the connection is closed.
    package func sendFailed(on flow: Flow, now: Moment) { flowClosed(flow, now: now) }

    // MARK: Sources of users

    /// Handles the answer or the failure of a source of users (a database or HTTP server) after a query about a user.
    package func userAnswered(_ ticket: UserTicket, _ answer: UserAnswer, now: Moment) {
        access.users.cache.answered(ticket, answer, now: now.instant)
        resumeWaiting(now: now)
    }

    /// Handles the keys of a token issuer, or the error that occurred when the shell read the keys.
    package func keysRead(_ keys: Result<[BearerKey], UserFault>, of issuer: Int, now: Moment) {
        keysArrived(keys, of: issuer, now: now)
        settle(now: now)
    }

    private func usersDue(now: Moment) {
        access.users.timerFired()
        access.users.cache.deadlineReached(now: now.instant)
        resumeWaiting(now: now)
    }

    /// Continues requests and logins whose wait for a source of users has ended, by an answer or by a time-out.
    private func resumeWaiting(now: Moment) {
        for user in access.users.cache.takeSettled() {
            let (requests, logins) = access.users.take(user)
            for incoming in requests {
                dispatch(incoming, now: now)
                settle(now: now)
            }
            for login in logins { act(.userSettled(login)) }
            passwordSettled(of: user, now: now)
        }
        askSources(now: now)
    }

    // MARK: The store

    /// Handles the result of a commit that the engine ordered; `succeeded` is false if the store could not write the
    /// changes.
    package func committed(_ ticket: CommitTicket, succeeded: Bool, now: Moment) {
        switch ticket.owner {
        case .registrar: planCommitted(ticket, succeeded: succeeded, now: now)
        case .messages: messageCommitted(ticket, succeeded: succeeded, now: now)
        case .nodes: noticeCommitted(ticket, now: now)
        }
        settle(now: now)
    }

    /// Handles the report that ``ProxyAction/storeRegisterCeiling(_:)`` is done, so that the daemon may use CSeq
    /// numbers up to `ceiling`.
    package func registerCeilingStored(_ ceiling: UInt32, now: Moment) {
        changeUpstreamUsers(now: now) { $0.ceilingStored(ceiling, now: $1, into: &$2) }
        settle(now: now)
    }

    /// Handles the answer to ``ProxyAction/readRegisterCeiling``: 0 if the store has no ceiling, `nil` if the store did not
    /// answer.
    package func registerCeilingRead(_ ceiling: UInt32?, now: Moment) {
        ceilingRead(ceiling, now: now)
        settle(now: now)
    }

    /// Registers the users of a domain, or one of the users, again at the domain's PBX, as an operator has ordered.
    ///
    /// - Returns: false if the daemon registers no users of the domain at a PBX.
    package func upstreamRetryOrdered(_ domain: ByteString, user: ByteString?, now: Moment) -> Bool {
        guard upstreamUsers.agent.isActive, let upstream = upstreamUsers.agent.upstream(of: domain) else {
            return false
        }
        changeUpstreamUsers(now: now) { $0.retryOrdered(upstream, user: user, now: $1, into: &$2) }
        settle(now: now)
        return true
    }

    // MARK: Providers

    /// Handles the result of ``ProxyAction/push(_:)`` or ``ProxyAction/makeCredential(_:)``.
    package func pushHappened(_ event: PushDispatcher.Event, now: Moment) {
        ledger.happened(event, now: now, into: &output.actions)
        settlePushes(now: now)
    }

    /// Replaces the credentials for push providers by credentials that were read again from files.
    package func credentialsChanged(_ credentials: PushCredentials, now: Moment) {
        ledger.credentialsChanged(credentials, now: now, into: &output.actions)
        settlePushes(now: now)
    }

    /// Removes contacts whose push tokens Apple's feedback service reports as dead, in one step of a search through all
    /// bindings.
    ///
    /// The parameter `dead` maps each token, in lower-case hexadecimal, to the time of the token's death in Unix
    /// seconds. The parameter `limit` is the maximum number of contacts that one step of the search examines.
    package func tokensReportedDead(
        _ dead: [ByteString: UInt32], from cursor: BindingCursor, limit: Int, now: Moment
    ) -> DeadTokenFindings {
        defer { settle(now: now) }
        return dropDeadTokens(dead, from: cursor, limit: limit, now: now)
    }

    // MARK: Services and operators

    /// Registers a device that a client reported over HTTP, in the same steps as a REGISTER. The result of a report
    /// over HTTP is ``ProxyAction/reported(_:_:)``.
    package func deviceReported(_ device: ReportedDevice, of aor: AddressOfRecord, _ ticket: ReportTicket, now: Moment)
    {
        beginRead(.report(device, ticket), for: aor.compacted(), now: now)
        settle(now: now)
    }

    /// Removes devices that an app reported over HTTP earlier; the result is ``ProxyAction/reported(_:_:)``.
    package func devicesWithdrawn(
        _ selection: DeviceSelection, of aor: AddressOfRecord, _ ticket: ReportTicket, now: Moment
    ) {
        beginRead(.removal(selection, ticket), for: aor.compacted(), now: now)
        settle(now: now)
    }

    /// Ends a waiting or ringing call for an operator, and returns whether the call existed.
    ///
    /// A device that has sent no response to the INVITE gets the ended call as a missed call. The caller gets `status`,
    /// which is 480, 486, 600 or 603.
    package func callEndedByOperator(_ id: UInt64, with status: Status, now: Moment) -> Bool {
        defer { settle(now: now) }
        return end(id, with: status, now: now)
    }

    /// Switches a push provider on or off, or pauses it (R8c, R9); the new state is already in the store.
    package func providerSwitched(_ provider: PushProvider, to state: ProviderState, now: Moment) {
        if switchProvider(provider, to: state, now: now) { sendOwedLists(now: now) }
        settlePushes(now: now)
        if state == .on { findUpstreamUsers(now: now) }
        settle(now: now)
    }

    /// Removes messages that an operator has deleted from the store; a sender that still waits for a response gets 480.
    package func messagesForgotten(_ ids: [UInt64], now: Moment) {
        for id in ids { messages[id].map { giveUp($0, now: now) } }
        settle(now: now)
    }
}

extension RequestValidation.Refusal {
    /// The reason for a request's refusal, in the words of the log and the timeline.
    fileprivate var cause: PushDelivery.Refusal {
        switch status {
        case .tooManyHops, .loopDetected: .loop
        default: .unfit
        }
    }
}
