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
import ServiceEvents
import Telemetry
import Timekeeping
import Waking

/// Handles REGISTERs, and devices that clients report or remove over HTTP.
extension ProxyEngine {
    /// Handles a REGISTER (RFC 3261 section 10.3): checks the password, commits the changes, and only then answers. The
    /// engine handles the REGISTERs of one AOR one after the other.
    func registerReceived(_ incoming: IncomingRequest, now: Moment) {
        let request = incoming.request
        guard mayRegister(incoming, now: now) else { return }
        guard let home = ownHome(of: request.to.uri, from: incoming),
            let aor = AddressOfRecord(request.to.uri, home: home)
        else {
            refuseRegister(incoming, of: nil, .notFound, because: "To names no user of this daemon", now: now)
            return
        }
        guard !incoming.isTrusted || isTrusted(incoming, for: home) else {
            refuseRegister(
                incoming, of: aor, .forbidden, because: "the peer is trusted for other domains only", now: now)
            return
        }
        guard request.path.isEmpty || incoming.isTrusted else {
            refusePath(incoming, for: aor, now: now)
            return
        }
        guard let proved = authenticateRegister(incoming, for: aor, now: now),
            let incoming = startTransaction(proved, now: now)
        else { return }
        begin(.register(incoming), for: aor, now: now)
    }

    // MARK: Authenticate

    /// Checks the password of a REGISTER.
    ///
    /// - Returns: the REGISTER with its nonce; `nil` if the REGISTER was answered or waits.
    private func authenticateRegister(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment)
        -> IncomingRequest?
    {
        guard settings.authenticates else { return isLimited(incoming, isProved: true, now: now) ? nil : incoming }
        let verdict = checkCredentials(of: incoming, as: .registrar, home: aor.host, owner: aor.user, now: now)
        // While a REGISTER waits for a source of users, it does not count against the rate limits.
        if case .asking(let name) = verdict, waits(incoming, for: AddressOfRecord(user: name, host: aor.host), now: now)
        {
            return nil
        }
        var isProved = false
        if case .authenticated = verdict { isProved = true }
        guard !isLimited(incoming, isProved: isProved, now: now) else { return nil }
        switch verdict {
        case .authenticated(_, let nonce): return incoming.proved(with: settings.digest.reusesNonces ? nonce : nil)
        case .forbidden:
            refuseRegister(incoming, of: aor, .forbidden, because: "the password belongs to another user", now: now)
        case .limited(let wait):
            refuseRegister(
                incoming, of: aor, .serviceUnavailable, fields: [Self.retryAfter(wait)],
                because: "too many wrong passwords", now: now)
        case .asking, .unavailable:
            refuseRegister(
                incoming, of: aor, .serviceUnavailable, fields: [retryLater],
                because: "no source of users can say now who the user is", now: now)
        case .awaitingKeys:
            refuseRegister(
                incoming, of: aor, .serviceUnavailable, fields: [retryLater],
                because: "the keys for tokens are not here yet", now: now)
        case .challenge(let reason):
            noteChallenge(incoming, of: aor, reason, now: now)
            challenge(incoming, reason, as: .registrar, home: aor.host, now: now)
        }
        return nil
    }

    // MARK: Limits (T17.6)

    /// Whether the rate limits allow a REGISTER; if the result is false, ``mayRegister`` has answered the REGISTER.
    ///
    /// REGISTERs without a password have their own, stricter limit. Therefore forged source addresses cannot block
    /// phones that send a password.
    private func mayRegister(_ incoming: IncomingRequest, now: Moment) -> Bool {
        guard !incoming.isTrusted else { return true }
        let showsPassword = !settings.authenticates || incoming.request.frame.contains(.authorization)
        guard
            let wait = access.sources.registers.wait(on: incoming.flow, showsPassword: showsPassword, now: now.instant)
        else {
            return true
        }
        refuseLimited(incoming, for: wait, now: now)
        return false
    }

    /// Counts a REGISTER, and returns true if the REGISTER exceeded the rate limit and was refused.
    private func isLimited(_ incoming: IncomingRequest, isProved: Bool, now: Moment) -> Bool {
        guard !incoming.isTrusted,
            let wait = access.sources.registers.came(on: incoming.flow, isProved: isProved, now: now.instant)
        else { return false }
        refuseLimited(incoming, for: wait, now: now)
        return true
    }

    private func refuseLimited(_ incoming: IncomingRequest, for wait: Duration, now: Moment) {
        output.counters.count(.registerLimited)
        output.counters.count(.registerRefused)
        access.sources.registers.tell(log, of: incoming.flow, now: now.instant)
        // The Retry-After has a random part, so that refused phones retry at different times.
        let spread = Duration.milliseconds(Int64(functions.random() % 10_000))
        refuse(incoming, .serviceUnavailable, fields: [Self.retryAfter(wait + spread)], now: now)
    }

    // MARK: Plan and commit

    func begin(_ work: RegistrarWork, for aor: AddressOfRecord, now: Moment) {
        switch registrar.begin(work, for: aor, now: now) {
        case .queued: break
        case .busy: refuse(work, retryAfter: 5, now: now)
        case .challenged:
            guard case .register(let incoming) = work else { return }
            count(.challenge(.stale))
            if let nonce = incoming.nonce, nonce.origin == .challenge { endNonce(nonce.name, of: aor, now: now) }
            challenge(incoming, .stale, as: .registrar, home: aor.host, now: now)
        case .rejected(let status, let fields, let problem):
            reject(work, of: aor, status, fields, because: problem, now: now)
        case .refreshed(let refresh):
            guard case .register(let incoming) = work else { return }
            noteReturn(of: CollectionOfOne(refresh.id), now: now)
            completeRefresh(incoming, refresh, for: aor, now: now)
        case .planned(let plan):
            if case .register = work { noteReturn(of: plan.refreshed, now: now) }
            complete(work, plan, for: aor, now: now)
        case .committing(let plan, let ticket):
            if case .register = work { noteReturn(of: plan.refreshed, now: now) }
            registrar.changeOrdered(of: aor)
            act(.commit(plan.persist.map(EngineChange.binding), ticket))
        }
    }

    /// Writes into the timeline that woken devices have sent a REGISTER, before the changes of the REGISTER are stored.
    private func noteReturn(of bindings: some Collection<DeviceID>, now: Moment) {
        guard !wakes.isEmpty, ledger.timeline.isOn else { return }
        for binding in bindings {
            let device = registrar.bindings.device(of: binding)
            for call in wakes.calls(of: device) {
                guard let branch = call.fork.waitingBranch(of: device) else { continue }
                ledger.registered(call.fork.branches[branch], now: now)
            }
        }
    }

    func planCommitted(_ ticket: CommitTicket, succeeded: Bool, now: Moment) {
        guard let (aor, queue) = registrar.committed(ticket, succeeded: succeeded) else { return }
        if succeeded {
            complete(queue.current, queue.plan, for: aor, now: now)
        } else {
            refuse(queue.current, retryAfter: 10, now: now)
        }
        // The waiting REGISTERs and HTTP requests of the AOR begin in order, until one of them needs a commit to the
        // store.
        for work in queue.waiting { begin(work, for: aor, now: now) }
    }

    // MARK: Complete

    /// Applies the stored changes of a REGISTER or HTTP request, and answers the REGISTER or HTTP request.
    private func complete(_ work: RegistrarWork, _ plan: RegisterPlan, for aor: AddressOfRecord, now: Moment) {
        let isOrdered = if case .register = work { false } else { true }
        let removals = output.events.removals(by: plan, isOrdered: isOrdered, registrar.bindings)
        registrar.complete(plan)
        if plan.refreshed.isEmpty, case .register(let incoming) = work, let nonce = incoming.nonce {
            // A sign-out ends the nonce for all bindings with the nonce.
            endNonce(nonce.name, of: aor, now: now)
        }
        countNew(plan.facts)
        output.events.added(plan.facts, of: aor, registrar.bindings, now: now, into: &output.actions)
        switch work {
        case .register(let incoming): completeRegister(incoming, plan, removals, for: aor, now: now)
        case .report(_, let ticket), .removal(_, let ticket):
            for fact in plan.facts {
                log.info(
                    "an HTTP request of an app or app server changed the devices or push tokens of a user",
                    [.aor: .described(aor), .outcome: .text("\(fact)")])
                if case .tokenReplaced(let device) = fact { wakes.records.forget(device) }
            }
            for device in plan.removed { deviceRemoved(device, of: aor, removals[device], now: now) }
            act(.reported(ticket, .done(plan.persist.count)))
        }
        if !plan.refreshed.isEmpty { noteUpstreamUser(aor, signed: now.date, now: now) }
        if plan.changesContacts { tellUpstreamChange(of: aor, now: now) }
    }

    /// Answers a REGISTER, and only afterwards sends the calls that wait for the phone (R17, A11).
    private func completeRegister(
        _ incoming: IncomingRequest, _ plan: RegisterPlan, _ removals: [DeviceID: DeviceRemoval],
        for aor: AddressOfRecord, now: Moment
    ) {
        note(plan.facts, for: aor, on: incoming.flow)
        noteAccepted(incoming, toWriteLater: plan.bookkeeping, now: now)
        if !registrar.unprotectedTokens.isTold,
            plan.refreshed.contains(where: { registrar.bindings.isPush(registrar.bindings.device(of: $0)) })
        {
            noteToken(of: aor, incoming)
        }
        if plan.announcement.flowTimer != nil { toldFlowTimer(plan.refreshed, on: incoming.flow, now: now) }
        answerRegister(incoming, now: now) { [functions] out in
            registrar.appendOKFields(for: plan, now: now, to: &out) { name, out in
                out.append(functions.seal.seal(name).span)
            }
        }
        for device in plan.removed { deviceRemoved(device, of: aor, removals[device], now: now) }
        for binding in plan.refreshed {
            countWake(of: binding, by: incoming)
            bindingReturned(binding, of: aor, isPush: nil, now: now)
        }
        if !plan.refreshed.isEmpty { findNodes(waitingFor: aor) }
    }

    /// Completes a REGISTER that only refreshes one contact with a push token.
    private func completeRefresh(
        _ incoming: IncomingRequest, _ refresh: ContactRefresh, for aor: AddressOfRecord, now: Moment
    ) {
        registrar.complete(refresh)
        note([], for: aor, on: incoming.flow)
        noteAccepted(incoming, toWriteLater: CollectionOfOne(refresh.id), now: now)
        noteToken(of: aor, incoming)
        if refresh.isOutbound { toldFlowTimer(CollectionOfOne(refresh.id), on: incoming.flow, now: now) }
        answerRegister(incoming, now: now) { [functions] out in
            registrar.appendOKFields(for: aor, after: refresh, now: now, to: &out) { name, out in
                out.append(functions.seal.seal(name).span)
            }
        }
        countWake(of: refresh.id, by: incoming)
        bindingReturned(refresh.id, of: aor, isPush: true, now: now)
        findNodes(waitingFor: aor)
        noteUpstreamUser(aor, signed: now.date, now: now)
    }

    /// Orders the question which other nodes have something waiting for a phone that has just registered here. The order
    /// comes after the commit of the phone's contact. A node that has just started waits too, although this node does not
    /// know it yet.
    private func findNodes(waitingFor aor: AddressOfRecord) {
        if network.flows.haveNodes { act(.findNodes(waitingFor: aor)) }
    }

    private func noteAccepted(_ incoming: IncomingRequest, toWriteLater rows: some Collection<DeviceID>, now: Moment) {
        let agent = UserAgent.said(in: incoming.request)
        for row in rows where registrar.noteRefreshed(row, saying: agent) {
            _ = output.timers.schedule(.bookkeepingDue, at: now.instant + Self.bookkeepingDelay)
        }
        output.counters.count(.registerAccepted)
        // If phones need no password, an accepted REGISTER is treated as proof, so that the shell keeps the phone's
        // connection open.
        if !settings.authenticates { noteProved(incoming.flow) }
    }

    /// Logs, once in each run of the daemon, that a phone sent its push token over the internet without TLS.
    private func noteToken(of aor: AddressOfRecord, _ incoming: IncomingRequest) {
        guard registrar.unprotectedTokens.contactAccepted(on: incoming.flow, isTrusted: incoming.isTrusted) else {
            return
        }
        log.notice(
            "a phone registered a push token over the internet without TLS, so others can read the token",
            [
                .aor: .described(aor), .source: .described(incoming.flow.remote),
                .transport: .text(incoming.flow.transport.viaName),
                .reason: .text(
                    "RFC 8599 section 13 requires TLS: add tls: or wss: to listen and let phones register there; the daemon logs this line only once after each start"
                ),
            ])
    }

    private func answerRegister(_ incoming: IncomingRequest, now: Moment, _ fields: (inout ByteSink) -> Void) {
        guard let server = incoming.server else { return }
        respond(server, .ok, incoming.response(.ok, toTag: sip.tags.next(), reserving: 896, fields), now: now)
    }

    /// Logs the changes of a REGISTER; a REGISTER that only refreshes contacts is logged at the level debug.
    private func note(_ facts: [RegistrationFact], for aor: AddressOfRecord, on flow: Flow) {
        guard log.isEnabled(.info) else { return }
        if facts.isEmpty {
            log.debug("a phone refreshed its registration", [.aor: .described(aor), .source: .described(flow.remote)])
        }
        for fact in facts {
            let story: LogValue = .text("\(fact)")
            log.info(
                "a REGISTER changed the contacts of a user",
                [.aor: .described(aor), .source: .described(flow.remote), .outcome: story])
        }
    }

    // MARK: Refuse

    /// Refuses a REGISTER or HTTP request because the registrar is busy or the store has failed; the client may retry
    /// later.
    func refuse(_ work: RegistrarWork, retryAfter seconds: Int, now: Moment) {
        switch work {
        case .register(let incoming):
            refuseRegister(
                incoming, of: nil, .serviceUnavailable, fields: [Self.retryAfter(seconds: seconds)],
                because: "too many registrations at once, or the disk takes no changes", now: now)
        case .report(_, let ticket), .removal(_, let ticket): act(.reported(ticket, .unavailable))
        }
    }

    /// Refuses a REGISTER or HTTP request that breaks the registrar's rules or limits.
    private func reject(
        _ work: RegistrarWork, of aor: AddressOfRecord, _ status: Status, _ fields: [AddedField],
        because problem: TokenProblem?, now: Moment
    ) {
        switch work {
        case .register(let incoming):
            refuseRegister(
                incoming, of: aor, status, fields: fields, because: problem?.sentence ?? Self.reason(status), now: now)
        case .report(_, let ticket), .removal(_, let ticket):
            switch status {
            case .pushNotSupported: act(.reported(ticket, .notSupported(problem ?? .providerOff)))
            case .forbidden: act(.reported(ticket, .tooManyDevices))
            default: act(.reported(ticket, .malformed))
            }
        }
    }

    /// The reason for a refusal by the registrar, in words for log lines.
    private static func reason(_ status: Status) -> StaticString {
        switch status {
        case .forbidden:
            "more contacts than registrar.max-contacts or contacts of the tenant, or a contact that is not allowed"
        case 423: "the requested expiry is too short"
        case 439: "an edge proxy on the way does not support flows (RFC 5626)"
        case 420: "the REGISTER requires an extension that the daemon does not support"
        default: "the REGISTER is malformed, or older than the last one"
        }
    }

    /// Refuses a REGISTER with a Path from an untrusted address, because the Path would receive all requests to the
    /// phone (T9.3).
    private func refusePath(_ incoming: IncomingRequest, for aor: AddressOfRecord, now: Moment) {
        let warning = AddedField.warning(399, by: aor.host, "Path from an address that is not trusted")
        refuseRegister(
            incoming, of: aor, .forbidden, fields: [warning],
            because: "the Path comes from an address that is not trusted", now: now)
    }

    /// Logs that a REGISTER was challenged, if the phone showed a wrong password or is not registered yet. Challenges
    /// of registered phones are not logged, because registered phones send REGISTERs without credentials every day.
    private func noteChallenge(
        _ incoming: IncomingRequest, of aor: AddressOfRecord, _ reason: DigestAuthenticator.Reason, now: Moment
    ) {
        switch reason {
        case .wrong:
            output.counters.count(.registerRefused)
            tellRefused(incoming, of: aor, .unauthorized, .wrongPassword, "wrong user or password", now: now)
        case .badToken(let fault):
            output.counters.count(.registerRefused)
            tellRefused(incoming, of: aor, .unauthorized, .wrongPassword, fault.sentence, now: now)
        case .tokenInClear:
            output.counters.count(.registerRefused)
            tellRefused(
                incoming, of: aor, .unauthorized, .wrongPassword, "it shows a token without TLS", now: now)
        case .nothingShown where !registrar.bindings.isKnown(aor):
            guard log.isEnabled(.info), let suppressed = access.refusals.challenged(now: now.instant) else {
                return
            }
            log.info(
                "REGISTER refused",
                refusedFields(incoming, of: aor, .unauthorized, "the phone has not sent a password yet", suppressed))
        case .nothingShown, .stale, .wrongForBinding: break
        }
    }

    private func refuseRegister(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, fields: [AddedField] = [],
        because reason: StaticString, now: Moment
    ) {
        output.counters.count(.registerRefused)
        tellRefused(incoming, of: aor, status, .register, reason, now: now)
        refuse(incoming, status, fields: fields, now: now)
    }

    /// Logs and records a refused REGISTER, up to a rate limit, because anybody can cause refusals.
    private func tellRefused(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, _ refusal: Refusal,
        _ reason: StaticString, now: Moment
    ) {
        let suppressed = noteRefusedRegister(incoming, of: aor, status, because: refusal, reason, now: now)
        guard let suppressed else { return }
        log.notice("REGISTER refused", refusedFields(incoming, of: aor, status, reason, suppressed))
    }

    private func refusedFields(
        _ incoming: IncomingRequest, of aor: AddressOfRecord?, _ status: Status, _ reason: StaticString,
        _ suppressed: Int
    ) -> KeyValuePairs<LogKey, LogValue> {
        [
            .aor: aor.map { .described($0) } ?? .bytes(incoming.request.to.uri.text),
            .source: .described(incoming.flow.remote), .status: .number(Int(status.code)),
            .reason: .text("\(reason)"), .suppressed: .number(suppressed),
        ]
    }

    /// Logs how many stored contacts have push tokens that the settings no longer accept, and how an operator can solve
    /// the problem.
    func noteUnfitContacts() {
        for (problem, count) in registrar.takeUnfit() {
            log.warning(
                "the daemon sends no pushes to some stored contacts, because the settings no longer accept their push tokens",
                [.count: .number(count), .reason: .text("\(problem.sentence)"), .advice: .text("\(problem.cure)")])
        }
    }

    // MARK: Timers

    /// Removes expired contacts that have no push token.
    func removeExpiredBindings(now: Moment) {
        let ended = registrar.bindings.removeExpired(limit: Self.expiryBatch, now: now.instant)
        guard !ended.isEmpty else { return }
        let haveNodes = network.flows.haveNodes
        let own = ended.filter { caresFor($0.path) }
        let changes = own.map { EngineChange.binding(haveNodes ? .expire($0) : .delete($0.id)) }
        if !changes.isEmpty { act(.record(changes)) }
        for binding in ended {
            registrar.changeOrdered(of: binding.aor)
            let removal = binding.isFurtherFlow || !caresFor(binding.path) ? nil : DeviceRemoval.expired
            deviceRemoved(binding.id, of: binding.aor, removal, now: now)
        }
    }

    /// The number of bindings that one step examines, so that calls need not wait when many bindings expire together.
    private static let expiryBatch = 500

    /// Writes one batch of refreshed bindings to the store, and sets a timer for the next batch.
    func bookkeepingDue(now: Moment) {
        let (rows, hasMore) = registrar.refreshedRows(limit: Self.bookkeepingBatch, now: now)
        act(.refresh(rows))
        if hasMore { _ = output.timers.schedule(.bookkeepingDue, at: now.instant + Self.bookkeepingPause) }
    }

    private static let bookkeepingDelay: Duration = .seconds(10)
    private static let bookkeepingPause: Duration = .milliseconds(50)
    private static let bookkeepingBatch = 200

    private func countNew(_ facts: [RegistrationFact]) {
        for fact in facts {
            if case .added = fact { output.counters.count(.bindingCreated) }
        }
    }
}

extension BindingChange {
    /// Deletes the row of an expired binding, if no other node has accepted a later REGISTER.
    fileprivate static func expire(_ ended: BindingTable.Ended) -> Self {
        .expire(ended.id, registeredAt: ended.registeredAt)
    }
}
