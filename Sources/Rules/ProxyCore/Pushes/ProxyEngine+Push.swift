package import Addressing
package import PushDelivery
import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

/// What providers, apps and operators say of pushes, as far as it concerns calls and contacts.
extension ProxyEngine {
    /// The provider's last word on a push; retries are over.
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
        _ push: AskedPush, _ branch: Int, of call: Call, _ outcome: PushOutcome, now: Moment
    ) {
        call.fork.pushFinished(branch, isAccepted: outcome.isAccepted)
        journal(call)
        guard !noteToken(outcome, of: push.device, aor: push.aor, now: now), !outcome.isAccepted else { return }
        // A phone that was here a moment ago may come back by itself.
        guard call.fork.branches[branch].isWaiting, !call.fork.branches[branch].hasMoved else { return }
        ledger.ended(branch, of: call, .pushFailed, now: now, into: &actions)
        branchFailed(branch, of: call, with: .temporarilyUnavailable, now: now)
    }

    /// The call went on without the push, or was over before its provider had answered.
    private func droppedPushFinished(_ push: AskedPush, _ outcome: PushOutcome, now: Moment) {
        guard !noteToken(dated(outcome, by: push), of: push.device, aor: push.aor, now: now), outcome.isAccepted else {
            return
        }
        if case .call(let call, let branch) = push.purpose, call.fork.pushTaken(branch) { journal(call) }
        if let end = push.end { tell(end, to: push.device, of: push.aor, now: now) }
    }

    /// A token that died at a time that the provider does not say: not after its phone has come for the call.
    private func dated(_ outcome: PushOutcome, by push: AskedPush) -> PushOutcome {
        guard outcome == .tokenDead(since: nil), case .call(let call, _) = push.purpose, let offer = call.offer else {
            return outcome
        }
        return .tokenDead(since: offer.receivedAt)
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

    /// Does what the outcome says of the token itself; true when the device is gone because of it.
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

    // MARK: What apps say

    /// Where an app's report of a push is kept.
    package enum MarkPlace: Hashable, Sendable {
        /// Nowhere: the device is none of ours.
        case unknownDevice
        /// In the record, which is under way; it goes to the store as a whole.
        case record
        /// The push is over: in its row, if there is one.
        case row
    }

    /// An app reports something of a push. A report that comes twice, or out of order, changes nothing.
    package func pushMarked(_ code: PushCode, _ mark: PushMark, by device: DeviceID, now: Moment) -> MarkPlace {
        guard isKnown(device) else { return .unknownDevice }
        return ledger.marked(code, mark, by: device, at: now.date) ? .record : .row
    }

    /// An app reports that its user has read everything. The caller has the stored rows changed as well.
    ///
    /// - Returns: false for a device that is none of ours.
    package func allPushesRead(by device: DeviceID, now: Moment) -> Bool {
        guard isKnown(device) else { return false }
        ledger.allRead(by: device, at: now.date)
        return true
    }

    /// Takes a push from the store at start-up, in the order in which they were sent, after the bindings.
    package func restoreUnread(_ code: PushCode, _ matter: UnreadPushes.Matter, of device: DeviceID, at date: UnixTime)
    {
        if isKnown(device) { _ = ledger.unread.asked(code, matter, by: device, at: date) }
    }

    /// The daemon stops: the records that are under way are written down, and the contacts that were refreshed lately.
    package func stopped(now: Moment) {
        ledger.stopped(now: now, into: &actions)
        act(.refresh(registrar.refreshedRows(limit: Self.lastRows, now: now).rows))
    }

    /// How many contacts are written at the end. They take some tenths of a second; of others a restart loses little.
    private static let lastRows = 10_000
}
