package import Addressing
package import Bytes
import Calling
import LocationService
import ProxyPolicy
package import PushDelivery
package import PushPlanning
package import Registration
import SIPGrammar
import ServiceEvents
import Telemetry
package import Timekeeping
import Waking

/// Handles the results of pushes for calls and contacts, and apps' reports about pushes.
extension ProxyEngine {
    /// Handles the final result of a push, after all retries.
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
        // While a push provider is paused, a call waits for its phone without a push.
        guard !push.isPaused else { return }
        // If the phone's flow was lost a moment ago, the branch continues to wait although its push failed. The phone
        // may register without a push.
        guard call.fork.branches[branch].isWaiting, !call.fork.branches[branch].hasMoved else { return }
        ledger.ended(branch, of: call, .pushFailed, now: now, into: &output.actions)
        branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
    }

    /// Handles the late result of a push. The call has ended or continued before the provider answered.
    private func droppedPushFinished(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        guard !noteToken(dated(outcome, by: push), of: push.device, aor: push.aor, now: now), outcome.isAccepted else {
            return
        }
        if case .call(let call, let branch) = push.purpose, call.fork.pushTaken(branch) { journal(call) }
        if let end = push.end { tell(end, to: push.device, of: push.aor, now: now) }
    }

    /// If a provider does not say when a token died, the daemon takes the arrival of the call as this time, so that a
    /// later registration stays valid.
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

    /// Removes the device if its push token is dead, or replaces the token if the provider named a new one. The result
    /// is true if the device was removed.
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
                "the push provider replaced a contact's push token, and the daemon stored the new token",
                [.aor: .described(aor), .device: .described(device)])
            registrar.changeOrdered(of: aor)
            act(.record(changes.map { .binding($0) }))
            return false
        case .accepted, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused,
            .noSuitableToken:
            return false
        }
    }

    // MARK: Reports of apps

    /// Where the daemon stores an app's report about a push.
    package enum MarkPlace: Hashable, Sendable {
        /// The app's report about a push is stored nowhere, because the device is unknown.
        case unknownDevice
        /// The app's report is stored in the open timeline record of the push.
        case record
        /// The app's report is added to the stored timeline record, because the push has ended.
        case row
    }

    /// Notes an app's report about a push, for example that the user has read the push; repeated and late reports have
    /// no effect.
    package func pushMarked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, now: Moment) -> MarkPlace {
        guard isKnown(device) else { return .unknownDevice }
        return ledger.marked(code, mark, by: device, at: now.date) ? .record : .row
    }

    /// Notes an app's report that its user has read all pushes, and returns false if the device is unknown.
    package func allPushesRead(by device: DeviceID, now: Moment) -> Bool {
        guard isKnown(device) else { return false }
        ledger.allRead(by: device, at: now.date)
        return true
    }

    /// Restores an unread push from the store at start-up. The shell restores unread pushes after all bindings, in the
    /// order in which the pushes were sent.
    package func restoreUnread(_ code: PushCode, _ matter: UnreadPushes.Matter, of device: DeviceID, at date: UnixTime)
    {
        if isKnown(device) { _ = ledger.becameUnread(code, matter, by: device, at: date) }
    }

    /// Writes open timeline records and recently refreshed contacts to the store before the daemon stops.
    package func stopped(now: Moment) {
        ledger.stopped(now: now, into: &output.actions)
        act(.refresh(registrar.refreshedRows(limit: Self.lastRows, now: now).rows))
    }

    /// The maximum number of refreshed contacts that are written when the daemon stops; 10,000 contacts take some
    /// tenths of a second. For further refreshed contacts, the store keeps the older rows.
    private static let lastRows = 10_000
}

/// Sends lists of missed calls to phones that have registered again.
extension ProxyEngine {
    /// Sends the list of missed calls to a device that has registered again.
    func reportMissedCalls(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard ledger.hasMissedCalls(device, of: aor),
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

    /// Schedules the lists of missed calls that were not sent before the daemon restarted.
    func restoreMissedCalls(now: Moment) {
        ledger.restored(now: now, into: &output.actions) { isBack($0, since: $1, now: now) }
    }

    /// Sends lists of missed calls that waited because a push provider accepted no pushes.
    func sendOwedLists(now: Moment) {
        ledger.sendOwed(now: now) { isBack($0, since: $1, now: now) }
    }

    private func isBack(_ device: DeviceID, since date: UnixTime, now: Moment) -> Bool {
        registrar.bindings.forkTarget(device, now: now.instant).map { $0.registeredAt > date } ?? false
    }

    /// Removes a user's missed calls that an operator has deleted from the store.
    ///
    /// The parameter `calls` has the missed calls at the time of the operator's command, without calls that still ring
    /// or wait.
    package func missedCallsForgotten(_ calls: [BucketEntry], of aor: AddressOfRecord, now: Moment) {
        ledger.forget(calls, of: aor, now: now, into: &output.actions)
    }
}

/// Checks push tokens by silent pushes (dry runs).
extension ProxyEngine {
    /// The time limit of a push token's check, including all retries of the silent push.
    private static let dryRunPatience: Duration = .seconds(30)

    /// Checks by a silent push whether a push token is valid, and reports the result as
    /// ``ProxyAction/dryRunEnded(_:canBePushed:)``.
    package func dryRunAsked(_ token: PushToken, _ ticket: DryRunTicket, now: Moment) {
        if token.provider == .apns || token.provider == .apnsDevelopment, (try? APNsToken(token)) == nil {
            return act(.dryRunEnded(ticket, canBePushed: false))
        }
        let code = ledger.newCode()
        let nobody = AddressOfRecord(user: .empty, host: .empty)
        ledger.send(
            AskedPush(.dryRun(ticket), code, device: .nobody, aor: nobody, record: nil),
            PushRequest(
                code: code, device: .nobody, token: token, message: .silent, badge: 0,
                deadline: now.date + Self.dryRunPatience),
            now: now, into: &output.actions)
    }
}

extension PushOutcome {
    /// Whether the push token is valid: the provider accepted the silent push, or the token is for calls only and
    /// cannot get silent pushes.
    var showsGoodToken: Bool {
        switch self {
        case .accepted, .acceptedWithNewToken: true
        // A PushKit token gets no silent push, because Apple ends apps whose VoIP push announces no call.
        case .noSuitableToken: true
        case .tokenDead, .retry, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused:
            false
        }
    }
}

/// The result of one step of the search for dead tokens.
package struct DeadTokenFindings: Hashable, Sendable {
    /// The number of contacts that one step of the search removed.
    package var dropped = 0
    /// The number of contacts that were kept although their push token is reported as dead, because they registered
    /// after that time.
    package var newer = 0
    /// The dead push tokens that the search found in contacts.
    package var matched: [ByteString] = []
    /// The cursor of the next step of the search; `nil` after the last step.
    package var next: BindingCursor?

    package init() {}
}

/// Removes contacts whose push tokens are dead according to a provider's answer or to Apple's feedback service.
extension ProxyEngine {
    /// Removes the contact of a device with a dead push token, and ends the branches that wait for the device. The
    /// device's unread missed calls move to the user's other devices.
    func dropDevice(
        _ device: DeviceID, of aor: AddressOfRecord, _ token: PushToken?, since: UnixTime?,
        source: DeadToken.Source, now: Moment
    ) {
        output.counters.count(.tokenDropped)
        log.notice(
            "a contact was removed, because its push token is dead",
            [.aor: .described(aor), .device: .described(device)])
        var changes = removeFlows(of: device, with: token, now: now)
        if let change = registrar.bindings.remove(device) { changes.append(.binding(change)) }
        if !changes.isEmpty {
            if let token {
                changes.append(
                    .deadToken(
                        DeadToken(
                            token: token, since: since ?? now.date, recordedAt: now.date, source: source,
                            domain: aor.host)))
            }
            registrar.changeOrdered(of: aor)
            act(.record(changes))
        }
        if ledger.buckets.unread(device, of: aor) > 0 {
            let successors = registrar.bindings.forkTargets(for: aor, now: now.instant)
                .filter { $0.canBeWoken && $0.id != device }.map(\.id)
            ledger.passOn(from: device, to: successors, of: aor, into: &output.actions)
        }
        deviceRemoved(device, of: aor, .tokenDead, because: .tokenDead, now: now)
    }

    /// Removes bindings on other flows of the same device, if they have the same dead push token.
    private func removeFlows(of device: DeviceID, with token: PushToken?, now: Moment) -> [EngineChange] {
        registrar.bindings.flows(of: device, now: now.instant).compactMap { flow in
            guard flow != device, registrar.bindings.pushToken(of: flow) == token else { return nil }
            return registrar.bindings.remove(flow).map { .binding($0) }
        }
    }

    /// Removes contacts whose push tokens Apple's feedback service reports as dead, in one step of a search through all
    /// bindings.
    ///
    /// - Parameters:
    ///   - dead: the Unix time in seconds of each dead token's death, by the token in lower-case hexadecimal.
    ///   - cursor: the binding at which the step of the search begins.
    ///   - limit: the maximum number of contacts that the step of the search examines.
    ///   - now: the present time by the monotonic clock and by the wall clock.
    /// - Returns: the removed and found contacts, and the cursor of the next step.
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
