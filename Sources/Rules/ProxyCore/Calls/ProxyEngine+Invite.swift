import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Telemetry
import Timekeeping

/// An INVITE for one of our users: each device of the user gets the INVITE or a push.
extension ProxyEngine {
    /// Offers an INVITE to one of our users: ordinary contacts ring immediately, sleeping devices get a push and are
    /// waited for (R11-R18).
    func offer(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller sender: Caller,
        now: Moment
    ) {
        let request = incoming.request
        // The key copies its texts, so that a stored call does not keep the whole message in memory.
        let key = UserCallKey(aor: aor, callID: request.callID, fromTag: request.from.tag ?? .empty)
        let aor = key.aor
        guard !calls.isOffered(key) else {
            // The same call came by another way (RFC 3261 section 8.2.2.2): its devices are being called already.
            refuse(incoming, .loopDetected, now: now)
            return
        }
        guard calls.offered < settings.limits.calls else {
            refuse(
                incoming, .serviceUnavailable, because: .tooManyCalls,
                fields: [Self.retryAfter(seconds: 5)], now: now)
            return
        }
        guard admits(incoming, from: sender, to: aor, now: now) else { return }
        guard let incoming = startTransaction(incoming, now: now), let server = incoming.server else { return }
        sendTrying(incoming, now: now)
        let targets = flows.activity == nil ? targets : targets.map { liveWay(to: $0, now: now) }
        let woken = targets.compactMap { treatment(of: $0, now: now) == .ring ? nil : $0.id }
        let holdTime = holdTime(of: request)
        let userCall = UserCall(
            ref: CallRef(rawValue: functions.random()), key: key, receivedAt: now.date,
            pushDeadline: now.date + holdTime, holdUntil: now.instant + holdTime,
            caller: sender, mayPush: woken.isEmpty || admitsPushes(of: sender, from: incoming, now: now))
        let call = calls.begin(
            incoming, server, branches: targets.map { ForkBranch(device: $0.id) }, purpose: .userCall(userCall),
            parties: HeldShares.Parties(caller: sender, callee: aor.shareNumber))
        call.journalling = .open
        counters.count(.call)
        log.info(
            "call offered",
            [
                .aor: .described(aor), .callID: .bytes(request.callID), .caller: .bytes(request.from.uri.text),
                .count: .number(targets.count),
            ])

        let caller = CallerIdentity(request, format: settings.call.callerIDFormat)
        let first = actions.count
        if !woken.isEmpty {
            counters.count(.missedCallStored)
            ledger.callOffered(userCall, from: caller, at: now.date, to: woken, into: &actions)
        }
        for (index, target) in targets.enumerated() {
            self.offer(
                userCall, to: target, treatment(of: target, now: now), branch: index, of: call, incoming, caller,
                now: now)
        }
        journalBegun(call, at: first, now: now)
    }

    /// One device gets the INVITE, or a push, or both.
    private func offer(
        _ userCall: UserCall, to target: ForkTarget, _ treatment: Treatment, branch: Int, of call: ProxiedRequest,
        _ incoming: IncomingRequest, _ caller: CallerIdentity, now: Moment
    ) {
        guard !call.isForgotten else { return }
        list(branch, of: call)
        if treatment != .ring, userCall.mayPush, let token = target.pushToken {
            ledger.wake(target, token, for: branch, of: call, userCall, caller, now: now, into: &actions)
        } else {
            let (omission, app) = omission(of: target, treatment)
            ledger.began(branch, of: call, userCall, target.id, omission, app: app, now: now)
        }
        if treatment != .ring { watch(target) }
        if treatment == .wake {
            call.fork.waits(branch)
            armHold(of: call, now: now)
            if userCall.mayPush { ask(target, now: now) }
        } else {
            sendToDevice(incoming, for: branch, of: call, to: target, now: now)
            // For a device with further flows, `sendToDevice` has armed the timer already.
            if treatment == .ringAndWake, !registrar.bindings.hasFurtherFlows(target.binding) {
                armSilence(of: call, now: now)
            }
        }
    }

    /// Why no push is sent, and the provider that would carry the push.
    private func omission(
        of target: ForkTarget, _ treatment: Treatment
    ) -> (TimelineRecord.Omission, app: String) {
        if let provider = target.provider {
            return (treatment == .ring ? .justRegistered : .callerLimit, provider.rawValue)
        }
        guard ledger.timeline.isOn, let provider = registrar.bindings.switchedOffProvider(of: target.id) else {
            return (.ordinaryContact, "")
        }
        return (.providerOff, provider.rawValue)
    }

    /// How a device is called when the INVITE comes.
    private enum Treatment {
        /// The device gets the INVITE.
        case ring
        /// The device gets a push, and the INVITE is held.
        case wake
        /// The device gets the INVITE and a push: nobody knows which reaches the phone first.
        case ringAndWake
    }

    /// A push contact gets a push, unless its phone registered a moment ago (reading A9).
    private func treatment(of target: ForkTarget, now: Moment) -> Treatment {
        guard target.canBeWoken else { return .ring }
        guard isAwake(target), !target.hasFailed else { return .wake }
        if now.date - target.registeredAt < settings.call.skipPushWithin { return .ring }
        return isLive(target, now: now) ? .ringAndWake : .wake
    }
}
