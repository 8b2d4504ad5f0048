package import Addressing
package import Bytes
import Calling
import LocationService
import ProxyPolicy
package import PushDelivery
package import PushPlanning
package import Registration
import SIPGrammar
import Telemetry
package import Timekeeping
import Waking

/// Handles outcomes and reports of pushes from providers, apps and operators, where they concern calls and contacts.
extension ProxyEngine {
    /// The provider's final outcome for a push, after all retries.
    func pushEnded(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        switch push.purpose {
        case .dryRun(let ticket): act(.dryRunEnded(ticket, canBePushed: outcome.showsGoodToken))
        case .test(let test):
            _ = noteToken(outcome, of: push.device, aor: push.aor, now: now)
            act(.testPushEnded(test.ticket, push.testRecord(test, outcome, now: now)))
        case _ where push.isDropped: droppedPushFinished(push, outcome, now: now)
        case .call(let call, let branch): callPushFinished(push, branch, of: call, outcome, now: now)
        case .missedCalls(let refs): missedCallsPushFinished(push, refs, outcome, now: now)
        case .notification: _ = noteToken(outcome, of: push.device, aor: push.aor, now: now)
        case .message:
            if !noteToken(outcome, of: push.device, aor: push.aor, now: now) {
                messagePushFinished(push, outcome, now: now)
            }
        }
    }

    private func callPushFinished(
        _ push: AskedPush, _ branch: Int, of call: ProxiedRequest, _ outcome: PushOutcome, now: Moment
    ) {
        call.fork.pushFinished(branch, isAccepted: outcome.isAccepted)
        journal(call)
        if outcome.isAccepted {
            pushAccepted(branch, of: call, now: now)
        } else if !push.isPaused {
            call.saw(.pushFailed)
        }
        guard !noteToken(outcome, of: push.device, aor: push.aor, now: now), !outcome.isAccepted else { return }
        // The call waits for a phone whose provider is paused.
        guard !push.isPaused else { return }
        // A phone whose flow was lost a moment ago may come back without a push.
        guard call.fork.branches[branch].isWaiting, !call.fork.branches[branch].hasMoved else { return }
        ledger.ended(branch, of: call, .pushFailed, now: now, into: &output.actions)
        branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
    }

    /// The provider answered a push that its call no longer needed: the call went on without the push, or was over.
    private func droppedPushFinished(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        guard !noteToken(dated(outcome, by: push), of: push.device, aor: push.aor, now: now), outcome.isAccepted else {
            return
        }
        if case .call(let call, let branch) = push.purpose, call.fork.pushTaken(branch) { journal(call) }
        if let end = push.end { tell(end, to: push.device, of: push.aor, now: now) }
    }

    /// Dates a dead token if its provider gives no time, with the arrival of the call. A phone that registered after
    /// that keeps its contact.
    private func dated(_ outcome: PushOutcome, by push: AskedPush) -> PushOutcome {
        guard outcome == .tokenDead(since: nil), case .call(let call, _) = push.purpose, let userCall = call.userCall
        else {
            return outcome
        }
        return .tokenDead(since: userCall.receivedAt)
    }

    private func missedCallsPushFinished(
        _ push: AskedPush, _ refs: [CallRef], _ outcome: PushOutcome, now: Moment
    ) {
        if outcome.isAccepted { ledger.listAccepted(push.code, refs, by: push.device, now: now, into: &output.actions) }
        guard !noteToken(outcome, of: push.device, aor: push.aor, now: now) else { return }
        if outcome.isAccepted { output.counters.count(.missedCallReported, by: UInt64(refs.count)) }
        ledger.reportFinished(refs, to: push.device, of: push.aor, outcome, now: now, into: &output.actions)
    }

    // MARK: Tokens

    /// Applies the outcome to the token itself. Returns true if the device was removed because its token is dead.
    private func noteToken(_ outcome: PushOutcome, of device: DeviceID, aor: AddressOfRecord, now: Moment) -> Bool {
        switch outcome {
        case .tokenDead(let since):
            guard let target = registrar.bindings.forkTarget(device, now: now.instant),
                shouldDropToken(since: since, registeredAt: target.registeredAt)
            else { return false }
            dropDevice(device, of: aor, target.pushToken, since: since, source: .provider, now: now)
            return true
        case .acceptedWithNewToken(let token):
            let changes = registrar.bindings.flows(of: device, now: now.instant).compactMap {
                registrar.bindings.replaceToken(of: $0, with: token, now: now)
            }
            guard !changes.isEmpty else { return false }
            wakes.records.forget(device)
            log.notice(
                "the provider named a new push token for a contact",
                [.aor: .described(aor), .device: .described(device)])
            act(.record(changes.map { .binding($0) }))
            return false
        case .accepted, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused,
            .noSuitableToken:
            return false
        }
    }

    // MARK: Reports of apps

    /// The place that keeps an app's report about a push.
    package enum MarkPlace: Hashable, Sendable {
        /// Nowhere, because the device is unknown.
        case unknownDevice
        /// In the open record, which the store gets as a whole when it ends.
        case record
        /// In the stored row, if it exists, because the push is over.
        case row
    }

    /// An app reports a mark for a push, such as read. A report that comes twice, or out of order, changes nothing.
    package func pushMarked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, now: Moment) -> MarkPlace {
        guard isKnown(device) else { return .unknownDevice }
        return ledger.marked(code, mark, by: device, at: now.date) ? .record : .row
    }

    /// An app reports that its user has read all pushes. The caller of this method also updates the stored rows.
    ///
    /// - Returns: false if the device is unknown.
    package func allPushesRead(by device: DeviceID, now: Moment) -> Bool {
        guard isKnown(device) else { return false }
        ledger.allRead(by: device, at: now.date)
        return true
    }

    /// Restores an unread push from the store at start-up. Pushes come in the order in which they were sent, after
    /// the bindings.
    package func restoreUnread(_ code: PushCode, _ matter: UnreadPushes.Matter, of device: DeviceID, at date: UnixTime)
    {
        if isKnown(device) { _ = ledger.unread.asked(code, matter, by: device, at: date) }
    }

    /// The daemon stops: open timeline records are written, and contacts that were refreshed lately.
    package func stopped(now: Moment) {
        ledger.stopped(now: now, into: &output.actions)
        act(.refresh(registrar.refreshedRows(limit: Self.lastRows, now: now).rows))
    }

    /// How many contacts are written at the end, which takes some tenths of a second. For other contacts, a restart
    /// loses little.
    private static let lastRows = 10_000
}

/// Lists of missed calls, for phones that return.
extension ProxyEngine {
    /// Sends a returning device the list of calls that it missed.
    func reportMissedCalls(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard ledger.buckets.hasMissedCalls(device, of: aor),
            let target = registrar.bindings.forkTarget(device, now: now.instant), let token = target.pushToken,
            !ledger.isPaused(token.provider)
        else { return }
        guard ledger.dispatcher.directory.carriesLists(token) else {
            let count = ledger.listNotCarried(by: target, token, of: aor, now: now, into: &output.actions)
            return output.counters.count(.missedCallNotCarried, by: UInt64(count))
        }
        ledger.reportMissedCalls(
            to: target, token, of: aor, life: settings.missedCallsLife, now: now, into: &output.actions)
    }

    /// Schedules the lists that were due when the last run ended.
    func restoreMissedCalls(now: Moment) {
        ledger.restored(now: now, into: &output.actions) { isBack($0, since: $1, now: now) }
    }

    /// A provider takes pushes again: lists that it would have got meanwhile are sent.
    func sendOwedLists(now: Moment) {
        ledger.sendOwed(now: now) { isBack($0, since: $1, now: now) }
    }

    private func isBack(_ device: DeviceID, since date: UnixTime, now: Moment) -> Bool {
        registrar.bindings.forkTarget(device, now: now.instant).map { $0.registeredAt > date } ?? false
    }

    /// An operator deleted missed calls of a user. Calls that are still being offered are never deleted this way. The
    /// rows of the calls must be deleted before this call.
    ///
    /// - Parameters:
    ///   - calls: the entries as they were when their rows were deleted.
    ///   - aor: the user.
    ///   - now: both clocks.
    package func missedCallsForgotten(_ calls: [BucketEntry], of aor: AddressOfRecord, now: Moment) {
        ledger.forget(calls, of: aor, now: now, into: &output.actions)
    }
}

/// Silent pushes that show whether a provider accepts a token.
extension ProxyEngine {
    /// How long a push may take with all its retries. A token must not wait longer for a provider that is down.
    private static let dryRunPatience: Duration = .seconds(30)

    /// Checks whether a token can be pushed. The answer is ``ProxyAction/dryRunEnded(_:canBePushed:)``.
    package func dryRunAsked(_ token: PushToken, _ ticket: DryRunTicket, now: Moment) {
        if token.provider == .apns || token.provider == .apnsDevelopment, (try? APNsToken(token)) == nil {
            return act(.dryRunEnded(ticket, canBePushed: false))
        }
        let code = ledger.newCode()
        let nobody = AddressOfRecord(user: .empty, host: .empty)
        let id = ledger.begin(AskedPush(.dryRun(ticket), code, device: .nobody, aor: nobody, record: nil))
        ledger.send(
            PushRequest(
                id: id, code: code, device: .nobody, token: token, message: .silent, badge: 0,
                deadline: now.date + Self.dryRunPatience), now: now, into: &output.actions)
    }
}

extension PushOutcome {
    /// Whether the token is good: the provider accepted the silent push, or could not send it because the token is
    /// only for calls.
    var showsGoodToken: Bool {
        switch self {
        case .accepted, .acceptedWithNewToken: true
        // This is a PushKit token. It gets no silent push, because Apple ends apps whose VoIP push is no call.
        case .noSuitableToken: true
        case .tokenDead, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused:
            false
        }
    }
}

/// Pushes that make phones refresh their contacts (RFC 8599 section 5.5), if a setting asks for them.
///
/// A walk visits all bindings within a minute, a few each second. Phones that registered at the same time are
/// therefore woken one after the other. Bindings that are not due need no timer.
extension ProxyEngine {
    private static let walkTime = 60
    private static let walkPause: Duration = .seconds(1)

    /// Starts the walk, if the setting asks for it. Called at the start, and when settings have changed.
    func armRefreshPushes(now: Moment) {
        guard settings.registrar.refreshPushLead > .zero, registrar.walkStarts() else { return }
        _ = output.timers.schedule(.refreshWalkDue, at: now.instant + Self.walkPause)
    }

    func refreshWalkDue(now: Moment) {
        registrar.walkPaused()
        let lead = settings.registrar.refreshPushLead
        guard lead > .zero else { return }
        for device in registrar.walked(steps: Self.walkTime, lead: lead, now: now.instant) {
            askToRefresh(device, now: now)
        }
        armRefreshPushes(now: now)
    }

    private func askToRefresh(_ binding: DeviceID, now: Moment) {
        let device = registrar.bindings.device(of: binding)
        guard let target = registrar.bindings.forkTarget(device, through: binding, now: now.instant),
            let token = target.pushToken, let aor = registrar.bindings.binding(binding)?.aor,
            !ledger.isPaused(token.provider), mayNotify(device, for: nil, now: now)
        else { return }
        ledger.limits.notified(device, for: nil, now: now.instant)
        output.counters.count(.refreshPush)
        log.debug("phone is woken to refresh its contact", [.aor: .described(aor), .device: .described(device)])
        var notification = PushNotification(expiresAt: now.date + settings.registrar.refreshPushLead)
        notification.isSilent = true
        notification.destinationType = ByteString("registration")
        notify(notification, ledger.newCode(), by: token, target, of: aor, now: now)
    }
}

/// The result of one step of the search for dead tokens.
package struct DeadTokenFindings: Hashable, Sendable {
    /// The number of contacts that were dropped.
    package var dropped = 0
    /// The number of contacts that stay because they registered after their token died.
    package var newer = 0
    /// The dead tokens that some contact has.
    package var matched: [ByteString] = []
    /// Where the next step begins; `nil` when all bindings were searched.
    package var next: BindingCursor?

    package init() {}
}

/// Removes contacts whose push tokens are dead, as a provider's answer or Apple's feedback service reports.
extension ProxyEngine {
    /// Drops the contact of a device whose token is dead. Branches that wait for the device end. Its missed calls go
    /// to the user's other devices.
    func dropDevice(
        _ device: DeviceID, of aor: AddressOfRecord, _ token: PushToken?, since: UnixTime?,
        source: DeadToken.Source, now: Moment
    ) {
        output.counters.count(.tokenDropped)
        log.notice(
            "contact removed, its push token is dead", [.aor: .described(aor), .device: .described(device)])
        var changes = removeFlows(of: device, with: token, now: now)
        if let change = registrar.bindings.remove(device) { changes.append(.binding(change)) }
        if !changes.isEmpty {
            if let token {
                changes.append(
                    .deadToken(
                        DeadToken(token: token, since: since ?? now.date, recordedAt: now.date, source: source)))
            }
            act(.record(changes))
        }
        if ledger.buckets.unread(device, of: aor) > 0 {
            let heirs = registrar.bindings.forkTargets(for: aor, now: now.instant)
                .filter { $0.canBeWoken && $0.id != device }.map(\.id)
            ledger.passOn(from: device, to: heirs, of: aor, into: &output.actions)
        }
        deviceRemoved(device, of: aor, because: .tokenDead, now: now)
    }

    /// Removes the other flows of a device that named the same dead token.
    private func removeFlows(of device: DeviceID, with token: PushToken?, now: Moment) -> [EngineChange] {
        registrar.bindings.flows(of: device, now: now.instant).compactMap { flow in
            guard flow != device, registrar.bindings.pushToken(of: flow) == token else { return nil }
            return registrar.bindings.remove(flow).map { .binding($0) }
        }
    }

    /// Drops contacts whose tokens Apple's feedback service reports as dead. There is no index by token, since
    /// nothing else needs one. All bindings are searched in steps, so that calls go on meanwhile.
    ///
    /// - Parameters:
    ///   - dead: the dead tokens in lower-case hexadecimal, each with the Unix second since which it is dead.
    ///   - cursor: where this step begins.
    ///   - limit: the number of contacts to read in this step.
    ///   - now: both clocks.
    /// - Returns: the findings, and where the next step begins.
    func dropDeadTokens(
        _ dead: [ByteString: UInt32], from cursor: BindingCursor, limit: Int, now: Moment
    ) -> DeadTokenFindings {
        var findings = DeadTokenFindings()
        var found: [(device: BindingTable.PushDevice, second: UInt32)] = []
        var cursor = cursor
        let hasMore = registrar.bindings.forEachAppleDevice(from: &cursor, limit: limit) { device in
            for token in device.token.appleTokens {
                guard let second = dead[token] else { continue }
                findings.matched.append(token)
                found.append((device, second))
                return
            }
        }
        for (device, second) in found {
            guard FeedbackRecord.shouldDropToken(second: second, registeredAt: device.registeredAt),
                let aor = registrar.bindings.binding(device.id)?.aor
            else {
                findings.newer += 1
                continue
            }
            findings.dropped += 1
            dropDevice(
                device.id, of: aor, device.token, since: UnixTime(seconds: Int64(second)), source: .feedback, now: now)
        }
        if hasMore { findings.next = cursor }
        return findings
    }
}
