import Addressing
import Bytes
package import PushDelivery
import Registration
import SIPGrammar
import Telemetry
package import Timekeeping

extension ProxyEngine {
    /// The incoming-call push of one sleeping branch (R11).
    func push(
        _ token: PushToken, to target: ForkTarget, _ call: OfferedCall, _ caller: CallerIdentity, fork: ForkID,
        branch: Int, now: Moment
    ) {
        guard deviceLimit.admit(target.id, now: now.instant) else {
            log.warning(
                "phone gets too many pushes, it is not woken",
                [.aor: .described(call.aor), .device: .described(target.id)])
            traceBegan(call, target, .deviceLimit, fork: fork, branch: branch, now: now)
            return
        }
        let code = newPushCode()
        let id = traceBegan(call, target, nil, code, fork: fork, branch: branch, now: now)
        forks[fork]?.fork.branches[branch].push = id
        pushes[id] = .call(code, fork, branch: branch, device: target.id, aor: call.aor)
        let badge = unread.asked(code, .call(call.ref), by: target.id, at: now.date)
        act(
            .push(
                PushRequest(
                    id: id, code: code, device: target.id, token: token,
                    message: .incomingCall(Self.incomingCall(call, from: caller)), badge: badge,
                    deadline: max(call.pushDeadline, now.date + Self.shortestCallPush))))
    }

    /// As pushes tell of it.
    static func incomingCall(_ call: OfferedCall, from caller: CallerIdentity) -> IncomingCall {
        IncomingCall(
            callRef: call.ref, callerURI: caller.number, displayName: caller.displayName,
            isAnonymous: caller.isAnonymous, receivedAt: call.receivedAt, callID: call.key.callID)
    }

    /// Of a phone that is woken because it was lost while it rang.
    private static let shortestCallPush: Duration = .seconds(5)

    /// Whether a push of a call has left matters when its phone is lost later: it is not woken twice.
    func notePushLeft(_ id: PushID, _ step: PushStep) {
        guard case .call(_, let fork, let branch, _, _)? = pushes[id] else { return }
        switch step {
        case .sent: forks[fork]?.fork.branches[branch].wasPushed = true
        case .answered(let outcome, _, _) where !outcome.isAccepted:
            forks[fork]?.fork.branches[branch].wasPushed = false
        case .queued, .refused, .answered, .finished, .withdrawn: break
        }
    }

    /// Names a push to its app, which is believed because nobody else can guess it.
    func newPushCode() -> PushCode { PushCode(high: functions.random(), low: functions.random()) }

    /// Drops the push of a branch that needs none any more; an answer that still comes finds nobody.
    func dropPush(of branch: Int, in fork: ForkID) {
        guard let push = forks[fork]?.fork.branches[branch].push else { return }
        forks[fork]?.fork.branches[branch].push = nil
        if let purpose = pushes.removeValue(forKey: push) {
            unread.ended(purpose.code, of: purpose.device)
        }
        act(.cancelPush(push))
    }

    /// The provider's last word on a push; retries are over.
    package func pushFinished(_ id: PushID, outcome: PushOutcome, now: Moment) {
        guard let purpose = pushes.removeValue(forKey: id) else { return }
        if !outcome.isAccepted { unread.ended(purpose.code, of: purpose.device) }
        switch purpose {
        case .call(_, let fork, let branch, let device, let aor):
            callPushFinished(fork, branch: branch, device: device, aor: aor, outcome, now: now)
        case .missedCalls(let code, let device, let aor, let refs):
            if outcome.isAccepted { listAccepted(code, refs, by: device, now: now) }
            missedCallsPushFinished(device, aor: aor, refs, outcome, now: now)
        case .notification(_, let device, let aor): notificationPushFinished(device, aor: aor, outcome, now: now)
        }
        settle(now: now)
    }

    private func callPushFinished(
        _ fork: ForkID, branch: Int, device: DeviceID, aor: AddressOfRecord, _ outcome: PushOutcome, now: Moment
    ) {
        forks[fork]?.fork.branches[branch].push = nil
        if noteToken(outcome, of: device, aor: aor, now: now) { return }
        guard !outcome.isAccepted else {
            forks[fork]?.fork.branches[branch].wasWoken = true
            forks[fork]?.fork.branches[branch].wasPushed = true
            return
        }
        // A phone that was here a moment ago may come back by itself.
        guard let waiting = forks[fork]?.fork.branches[branch], waiting.isSleeping, !waiting.hasMoved else { return }
        traceEnded(branch, of: fork, .pushFailed, now: now)
        branchFailed(branch, of: fork, with: .temporarilyUnavailable, now: now)
    }

    /// What the outcome says of the token itself; true when the device is gone with it.
    func noteToken(_ outcome: PushOutcome, of device: DeviceID, aor: AddressOfRecord, now: Moment) -> Bool {
        switch outcome {
        case .tokenDead(let since):
            guard let target = bindings.forkTarget(device, now: now.instant),
                shouldDropToken(since: since, registeredAt: target.registeredAt)
            else { return false }
            dropDevice(device, of: aor, target.pushToken, since: since, source: .provider, now: now)
            return true
        case .acceptedWithNewToken(let token):
            guard let change = bindings.replaceToken(of: device, with: token, now: now) else { return false }
            log.notice(
                "the provider named a new push token for a contact",
                [.aor: .described(aor), .device: .described(device)])
            act(.record([.binding(change)]))
            return false
        case .accepted, .retry, .renewCredential, .credentialsRefused, .noConnection, .payloadRefused,
            .noSuitableToken:
            return false
        }
    }

    /// Its token is dead: the contact goes, the branches that wait for it end, and so do its entries in the bucket.
    func dropDevice(
        _ device: DeviceID, of aor: AddressOfRecord, _ token: PushToken?, since: UnixTime?,
        source: DeadToken.Source, now: Moment
    ) {
        counters.count(.tokenDropped)
        log.notice(
            "contact removed, its push token is dead", [.aor: .described(aor), .device: .described(device)])
        if let change = bindings.remove(device) {
            var changes: [EngineChange] = [.binding(change)]
            if let token {
                changes.append(
                    .deadToken(
                        DeadToken(token: token, since: since ?? now.date, recordedAt: now.date, source: source)))
            }
            act(.record(changes))
        }
        passOnMissedCalls(of: device, aor: aor, now: now)
        deviceRemoved(device, of: aor, because: .tokenDead, now: now)
    }
}
