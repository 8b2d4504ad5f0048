package import Addressing
package import PushDelivery
import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

/// Handles outcomes and reports of pushes from providers, apps and operators, where they concern calls and contacts.
extension ProxyEngine {
    /// The provider's final outcome for a push, after all retries.
    func pushEnded(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        switch push.purpose {
        case .dryRun(let ticket): act(.dryRunEnded(ticket, canBePushed: outcome.showsGoodToken))
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
        guard !noteToken(outcome, of: push.device, aor: push.aor, now: now), !outcome.isAccepted else { return }
        // A phone whose flow was lost a moment ago may come back without a push.
        guard call.fork.branches[branch].isWaiting, !call.fork.branches[branch].hasMoved else { return }
        ledger.ended(branch, of: call, .pushFailed, now: now, into: &actions)
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
        if outcome.isAccepted { ledger.listAccepted(push.code, refs, by: push.device, now: now, into: &actions) }
        guard !noteToken(outcome, of: push.device, aor: push.aor, now: now) else { return }
        if outcome.isAccepted { counters.count(.missedCallReported, by: UInt64(refs.count)) }
        ledger.reportFinished(refs, to: push.device, of: push.aor, outcome, now: now, into: &actions)
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
        ledger.stopped(now: now, into: &actions)
        act(.refresh(registrar.refreshedRows(limit: Self.lastRows, now: now).rows))
    }

    /// How many contacts are written at the end, which takes some tenths of a second. For other contacts, a restart
    /// loses little.
    private static let lastRows = 10_000
}
