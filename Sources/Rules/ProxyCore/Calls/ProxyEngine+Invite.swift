import AccessLimits
import Addressing
import Bytes
import Calling
import Collections
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Offers an INVITE to one of our users: each device of the user gets the INVITE or a push.
extension ProxyEngine {
    /// Offers an INVITE to the devices of a user: ordinary contacts get the INVITE, and sleeping devices get a push
    /// while the INVITE is held (R11-R18). If `targets` is empty, the call is forwarded, see
    /// ``offerToNobody(_:of:caller:now:)``.
    func offer(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller sender: Caller,
        now: Moment
    ) {
        let request = incoming.request
        // The key copies its texts, so that a stored call does not keep the whole message in memory.
        let key = UserCallKey(aor: aor, callID: request.callID, fromTag: request.from.tag ?? .empty)
        let aor = key.aor
        guard !calls.isOffered(key) else {
            // The same INVITE arrived twice, because a proxy forked it (RFC 3261 section 8.2.2.2). The devices are
            // being called already.
            refuse(incoming, .loopDetected, because: .loop, now: now)
            return
        }
        guard !comesBack(incoming, to: aor) else { return refuse(incoming, .loopDetected, because: .loop, now: now) }
        guard calls.offered < settings.limits.calls else {
            refuse(
                incoming, .serviceUnavailable, because: .tooManyCalls,
                fields: [Self.retryAfter(seconds: 5)], now: now)
            return
        }
        guard admits(incoming, from: sender, to: aor, now: now) else { return }
        guard let incoming = startTransaction(incoming, now: now), let server = incoming.server else { return }
        upstreamUsers.called(aor, now: now)
        sendTrying(incoming, now: now)
        let targets = !network.flows.watchesActivity ? targets : targets.map { liveWay(to: $0, now: now) }
        let woken = targets.compactMap { treatment(of: $0, now: now) == .ring ? nil : $0.id }
        let holdTime = holdTime(of: request)
        let userCall = UserCall(
            ref: CallRef(rawValue: functions.random()), key: key, receivedAt: now.date,
            pushDeadline: now.date + holdTime, holdUntil: now.instant + holdTime,
            caller: sender, mayPush: woken.isEmpty || admitsPushes(of: sender, from: incoming, now: now))
        let call = calls.begin(
            incoming, server, branches: targets.map { ForkBranch(device: $0.id) }, purpose: .userCall(userCall),
            parties: HeldShares.Parties(caller: sender, callee: aor.shareNumber))
        call.journalBegan()
        output.counters.count(.call)
        log.info(
            "a call for a user has arrived",
            [
                .aor: .described(aor), .callID: .bytes(request.callID), .caller: .bytes(request.from.uri.text),
                .count: .number(targets.count),
            ])

        let caller = CallerIdentity(request, format: settings.call.callerIDFormat)
        let first = output.actions.count
        if !woken.isEmpty {
            output.counters.count(.missedCallStored)
            ledger.callOffered(userCall, from: caller, at: now.date, to: woken, into: &output.actions)
        }
        for (index, target) in targets.enumerated() {
            self.offer(
                userCall, to: target, treatment(of: target, now: now), branch: index, of: call, incoming, caller,
                now: now)
        }
        journalBegun(call, at: first, now: now)
        noWakeBegan(call, now: now)
        if targets.isEmpty { update(call, now: now) { $0.hasNoDevice() } }
    }

    /// Sends the INVITE, a push, or both to one device.
    private func offer(
        _ userCall: UserCall, to target: ForkTarget, _ treatment: Treatment, branch: Int, of call: ProxiedRequest,
        _ incoming: IncomingRequest, _ caller: CallerIdentity, now: Moment
    ) {
        guard !call.isForgotten else { return }
        list(branch, of: call)
        if treatment != .ring, userCall.mayPush, let token = target.pushToken {
            ledger.wake(target, token, for: branch, of: call, userCall, caller, now: now, into: &output.actions)
        } else {
            let (omission, app) = omission(of: target, treatment)
            ledger.began(branch, of: call, userCall, target.id, omission, app: app, now: now)
            if omission == .callerLimit { call.saw(.pushLimited) }
        }
        if treatment != .ring { watch(target) }
        if treatment == .wake {
            call.fork.waits(branch)
            call.saw(.held)
            armHold(of: call, now: now)
            if userCall.mayPush { ask(target, now: now) }
        } else {
            sendToDevice(incoming, for: branch, of: call, to: target, now: now)
            // If the device has several flows, `sendToDevice` has already armed this timer.
            if treatment == .ringAndWake, !registrar.bindings.hasFurtherFlows(target.binding) {
                armSilence(of: call, now: now)
            }
        }
    }

    /// The reason why a device gets no push, and the provider of its token.
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

    /// How a device is called when an INVITE arrives.
    private enum Treatment {
        /// The device gets the INVITE immediately.
        case ring
        /// The device gets a push, and the INVITE is held.
        case wake
        /// The device gets the INVITE and a push, because either may reach the phone first.
        case ringAndWake
    }

    /// Decides how a device is called. A push contact gets a push, unless its phone registered within
    /// `skip-push-within` (reading A9).
    private func treatment(of target: ForkTarget, now: Moment) -> Treatment {
        guard target.canBeWoken else { return .ring }
        guard hop(to: target).isOpen, !target.hasFailed else { return .wake }
        if now.date - target.registeredAt < settings.call.skipPushWithin { return .ring }
        return network.flows.isLive(target, now: now) ? .ringAndWake : .wake
    }
}

/// Checks the limits on held requests, and on callers who wake phones (T11).
extension ProxyEngine {
    /// Whether a request may be held until its final response, by the total limits and by the shares of its caller and
    /// callee (T11.3).
    ///
    /// If the request has no room, this method has answered it. If the caller's held requests exceed a limit, the
    /// response is 503. If the callee has too many held requests, the response to an INVITE is 486, and to any other
    /// request 480: a PBX that got 503 would no longer send calls to this proxy.
    func admits(_ incoming: IncomingRequest, from caller: Caller, to callee: AddressOfRecord?, now: Moment)
        -> Bool
    {
        let isInvite = incoming.request.method == .invite
        let size = incoming.request.frame.bytes.count
        makeRoom(for: size)
        let parties = HeldShares.Parties(caller: caller, callee: callee?.shareNumber)
        let (status, refusal): (Status, Refusal)
        switch calls.shares.refusal(of: size, isInvite: isInvite, for: parties, calls.limits) {
        case nil: return true
        case .proxyFull: (status, refusal) = (.serviceUnavailable, .noRoom)
        case .callerFull: (status, refusal) = (.serviceUnavailable, .callerLimit)
        case .calleeFull: (status, refusal) = (isInvite ? .busyHere : .temporarilyUnavailable, .calleeLimit)
        }
        output.counters.count(.shareUsedUp)
        let fields = status == .serviceUnavailable ? [Self.retryAfter(seconds: 5)] : []
        refuse(incoming, status, because: refusal, fields: fields, now: now)
        return false
    }

    /// Whether the sender's share has room for a request that starts no call, such as a request inside a dialog. If the
    /// result is false, this method has answered the request. Trusted peers and BYE always have room (T32.3).
    func admitsBesides(_ incoming: IncomingRequest, from caller: Caller, now: Moment) -> Bool {
        guard incoming.request.method != .bye, !caller.isTrusted else { return true }
        let size = incoming.request.frame.bytes.count
        let parties = HeldShares.Parties(caller: caller)
        guard calls.shares.refusal(of: size, isInvite: false, for: parties, calls.limits) != nil else { return true }
        output.counters.count(.shareUsedUp)
        refuse(
            incoming, .serviceUnavailable, because: .callerLimit, fields: [Self.retryAfter(seconds: 5)], now: now)
        return false
    }

    /// The caller to whom a request without a password counts: the caller that a trusted peer names, or else the
    /// sender's address.
    func caller(of request: SIPRequest, on flow: Flow, isTrusted: Bool) -> Caller {
        isTrusted ? Caller(namedIn: request, by: flow.remote.address) : Caller(flow.remote.address)
    }

    /// Whether this caller may wake phones now (T11.2). Trusted peers have no limit on pushes here: a PBX limits its
    /// own callers.
    func admitsPushes(of caller: Caller, from incoming: IncomingRequest, now: Moment) -> Bool {
        guard settings.call.pushesPerCaller > 0, !caller.isTrusted else { return true }
        guard !ledger.limits.admits(caller, now: now.instant) else { return true }
        if let suppressed = ledger.lines.admit(caller, now: now.instant) {
            log.warning(
                "a caller makes too many calls, so the daemon wakes no phone for the call",
                [
                    .caller: .bytes(incoming.request.from.uri.text), .source: .described(incoming.flow.remote),
                    .suppressed: .number(suppressed),
                ])
        }
        return false
    }

    /// Begins to proxy a request: keeps the request, and gives it a server transaction. If no transaction is free, this
    /// method has answered the request and returns `nil`.
    func startProxying(
        _ incoming: IncomingRequest, to devices: [DeviceID?], parties: HeldShares.Parties = .nobody,
        now: Moment
    ) -> (IncomingRequest, ProxiedRequest)? {
        guard let incoming = startTransaction(incoming, now: now), let server = incoming.server else { return nil }
        let call = calls.begin(incoming, server, branches: devices.map(ForkBranch.init), parties: parties)
        if call.fork.isInvite {
            call.journalBegan()
            journalBegun(call, at: output.actions.count, now: now)
        }
        return (incoming, call)
    }
}

/// Parses a call's kept request again.
extension ProxyEngine {
    /// The call's request. The latest calls keep their parsed request; for other calls, the bytes are parsed again.
    func revive(_ call: ProxiedRequest) -> IncomingRequest? {
        guard let request = call.recent ?? reread(call.request) else { return nil }
        let incoming = IncomingRequest(request, on: call.source, isTrusted: call.isTrusted).proved(by: call.sender)
        return call.server.map(incoming.matched) ?? incoming
    }

    func reread(_ request: KeptRequest) -> SIPRequest? { functions.reread(request.unpacked(functions.packing)) }
}
