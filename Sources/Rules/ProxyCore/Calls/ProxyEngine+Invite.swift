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
import ServiceEvents
import Telemetry
import Timekeeping
import Waking

/// Offers an INVITE to one of our users: each device of the user gets the INVITE or a push.
extension ProxyEngine {
    /// Offers an INVITE to the devices of a user: awake devices get the INVITE, and sleeping devices get a push while
    /// the INVITE waits (R11-R18).
    ///
    /// If `targets` is empty, the call is forwarded to another URI, as ``offerToNobody(_:of:caller:now:)`` has decided.
    func offer(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ targets: [ForkTarget], caller: Caller, now: Moment
    ) {
        let request = incoming.request
        // The key copies its strings, so that a stored call does not keep the whole message in memory.
        let key = UserCallKey(aor: aor, callID: request.callID, fromTag: request.from.tag ?? .empty)
        let aor = key.aor
        guard !comesBack(incoming, to: aor) else { return refuse(incoming, .loopDetected, because: .loop, now: now) }
        let parties = HeldShares.Parties(
            caller: caller, callee: aor.shareNumber, tenant: share(of: aor.host))
        let refusal = calls.refusal(
            of: request.frame.bytes.count, offering: key, isInvite: true, for: parties, settings.limits,
            now: now.instant
        ) { wakes.noLongerWaits($0) }
        if let refusal { return refuse(incoming, by: refusal, now: now) }
        guard let incoming = startTransaction(incoming, now: now), let server = incoming.server else { return }
        if !upstreamUsers.pbxs.isEmpty { upstreamUsers.called(aor, now: now) }
        sendTrying(incoming, now: now)
        let targets = !network.flows.watchesActivity ? targets : targets.map { liveWay(to: $0, now: now) }
        begin(incoming, server, key, targets, caller, parties, now: now)
    }

    /// The number of a new call. In a cluster, the number depends on the INVITE alone. A node that continues the call
    /// of another node thus replaces the call's entry in the lists of missed calls.
    private func callRef(of key: UserCallKey) -> CallRef {
        guard network.flows.haveNodes else { return CallRef(rawValue: functions.random()) }
        let text = Array("\(key.aor) ".utf8) + key.callID.array + [32] + key.fromTag.array
        let hash = functions.digest.code(text).prefix(8).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        return CallRef(rawValue: max(hash, 1))
    }

    /// Creates a call to a user after the caller got 100, and offers the call to the devices whose turn is now.
    private func begin(
        _ incoming: IncomingRequest, _ server: ServerTransactionID, _ key: UserCallKey, _ targets: [ForkTarget],
        _ caller: Caller, _ parties: HeldShares.Parties, now: Moment
    ) {
        let (request, aor) = (incoming.request, key.aor)
        let plan = ringPlan(for: targets, of: aor, from: incoming, now: now)
        let holdTime = holdTime(of: request, adding: plan.lastStart)
        let treatments = targets.indices.map { plan.withholds($0) ? nil : treatment(of: targets[$0], now: now) }
        // If the rules of the user let a phone ring later or not at all, the call is in the phone's list of missed
        // calls, even if the phone is awake.
        let woken = zip(targets, treatments).compactMap { target, treatment in
            (treatment.map { $0 != .ring } ?? target.canBeWoken) ? target.id : nil
        }
        let userCall = UserCall(
            ref: callRef(of: key), key: key, receivedAt: now.date,
            pushDeadline: now.date + holdTime, holdUntil: now.instant + holdTime, caller: caller,
            mayPush: woken.isEmpty || plan.silence != nil
                || mayWake(woken.count, phonesOf: aor, for: caller, incoming, now: now))
        let call = calls.begin(
            incoming, server, branches: targets.map { ForkBranch(device: $0.id) }, purpose: .userCall(userCall),
            parties: parties)
        call.journalBegan()
        output.counters.count(.call)
        log.info(
            "a call for a user has arrived",
            [
                .aor: .described(aor), .callID: .bytes(request.callID), .caller: .bytes(request.from.uri.text),
                .count: .number(targets.count),
            ])
        let callerID = CallerIdentity(request, format: settings.call.callerIDFormat)
        journalBegun(call, now: now) {
            if !woken.isEmpty {
                output.counters.count(.missedCallStored)
                ledger.callOffered(userCall, from: callerID, at: now.date, to: woken, into: &output.actions)
            }
            if !plan.isUsual { delay(call, userCall, targets, plan, now: now) }
            for (index, target) in targets.enumerated() {
                guard let treatment = treatments[index] else { continue }
                offer(userCall, to: target, treatment, branch: index, of: call, incoming, callerID, now: now)
            }
        }
        output.events.held(call, from: callerID.remoteURI, now: now, into: &output.actions)
        noWakeBegan(call, now: now)
        if let silence = plan.silence { notDisturbed(call, userCall, targets, silence, now: now) }
        if targets.isEmpty { update(call, now: now) { $0.hasNoDevice() } }
    }

    /// Handles an INVITE for a user without any contact: the INVITE is forwarded through the upstream, or refused.
    func offerToNobody(_ incoming: IncomingRequest, of aor: AddressOfRecord, caller: Caller, now: Moment) {
        guard !comesBack(incoming, to: aor) else { return refuse(incoming, .loopDetected, because: .loop, now: now) }
        let plan = noWakePlan(for: aor, isTrusted: incoming.isTrusted) { incoming.request }
        guard plan.forwards else {
            return refuse(incoming, plan.status, because: .noContact, fields: plan.fields, now: now)
        }
        guard Breadth.share(of: incoming.request, among: 1) > 0 else {
            return refuse(incoming, .maxBreadthExceeded, because: .loop, now: now)
        }
        offer(incoming, to: aor, [], caller: caller, now: now)
    }

    /// Whether an INVITE is a forwarded call that has come back to the user for whom it was forwarded.
    func comesBack(_ incoming: IncomingRequest, to aor: AddressOfRecord) -> Bool {
        guard incoming.isTrusted, incoming.request.frame.contains(.diversion),
            settings.call.noWake.settings(for: aor).action == .forward
        else { return false }
        return Diversions(incoming.request.frame).comesBack(to: aor)
    }
}

/// Handles CANCEL requests from callers.
extension ProxyEngine {
    /// Answers a CANCEL with 200, and cancels the branches of its INVITE (RFC 3261 section 16.10).
    func cancelReceived(_ incoming: IncomingRequest, of invite: ServerTransactionID, now: Moment) {
        guard isOfCaller(incoming, of: invite, now: now) else {
            // The CANCEL of another sender gets no transaction, because a transaction would absorb the CANCEL of the
            // caller itself.
            return refuse(incoming, .callDoesNotExist, now: now)
        }
        guard let incoming = startTransaction(incoming, cancelling: invite, now: now) else { return }
        refuse(incoming, .ok, now: now)
        guard let call = calls.call(of: invite) else { return }
        callerReturned(call, on: incoming.flow)
        if call.fork.isWaiting { output.counters.count(.heldCancelled) }
        let reasons = incoming.request.frame.values(of: .reason).map { $0.compacted() }
        let isAnswered = reasons.contains(where: CallReason.saysAnswered)
        call.cancelled(for: reasons)
        update(call, now: now) { $0.cancelReceived(answeredElsewhere: isAnswered) }
    }

    /// Whether the CANCEL came from the sender of the INVITE (T22.5).
    ///
    /// The branch parameter in Via does not prove the sender, because everybody who got the INVITE knows this
    /// parameter. A CANCEL can come from another address than its INVITE, because phones change their address and a PBX
    /// can have several addresses.
    private func isOfCaller(_ cancel: IncomingRequest, of invite: ServerTransactionID, now: Moment) -> Bool {
        guard let call = calls.call(of: invite) else { return true }
        // A node passes on only the CANCEL of the caller.
        if network.flows.isOfNode(cancel.flow) { return true }
        if call.isTrusted, hasTenants {
            // A PBX of another tenant may share the address of this tenant's PBX.
            return isTrusted(cancel, for: home(of: call))
        }
        if cancel.flow.remote.address == call.source.remote.address { return true }
        if cancel.isTrusted, call.isTrusted { return true }
        guard let sender = call.sender else { return false }
        return registrar.bindings.forkTargets(for: sender, now: now.instant).contains {
            $0.flow.remote == cancel.flow.remote
        }
    }
}

/// Checks how many requests may wait, and how often a caller may wake phones (T11).
extension ProxyEngine {
    /// Whether the limits leave room for another request: in total, for its caller, and for its callee (T11.3). If
    /// ``admits(_:from:to:now:)`` returns false, the engine has already answered the request.
    ///
    /// A request that exceeds the limit of its caller gets 503. A request beyond its callee's limit gets 486 or 480.
    /// After a 503, a PBX would send no more calls to this proxy.
    func admits(
        _ incoming: IncomingRequest, from caller: Caller, to callee: AddressOfRecord?, of domain: ByteString? = nil,
        now: Moment
    ) -> Bool {
        let isInvite = incoming.request.method == .invite
        let size = incoming.request.frame.bytes.count
        let parties = HeldShares.Parties(
            caller: caller, callee: callee?.shareNumber, tenant: share(of: domain ?? callee?.host))
        let refusal = calls.refusal(
            of: size, offering: nil, isInvite: isInvite, for: parties, settings.limits, now: now.instant
        ) {
            wakes.noLongerWaits($0)
        }
        guard let refusal else { return true }
        refuse(incoming, by: refusal, now: now)
        return false
    }

    /// Refuses a request that exceeds a limit on waiting requests.
    private func refuse(_ incoming: IncomingRequest, by refusal: Calls.Refusal, now: Moment) {
        let (status, cause): (Status, Refusal) =
            switch refusal {
            case .offeredBefore: (.loopDetected, .loop)
            case .tooManyCalls: (.serviceUnavailable, .tooManyCalls)
            case .noRoom(.proxyFull): (.serviceUnavailable, .noRoom)
            case .noRoom(.callerFull): (.serviceUnavailable, .callerLimit)
            case .noRoom(.tenantFull): (.serviceUnavailable, .tenantLimit)
            case .noRoom(.calleeFull) where incoming.request.method == .invite: (.busyHere, .calleeLimit)
            case .noRoom(.calleeFull): (.temporarilyUnavailable, .calleeLimit)
            }
        if case .noRoom = refusal { output.counters.count(.shareUsedUp) }
        let fields = status == .serviceUnavailable ? [Self.retryAfter(seconds: 5)] : []
        refuse(incoming, status, because: cause, fields: fields, now: now)
    }

    /// Whether the sender's limit leaves room for a request that starts no call, such as a request inside a dialog. If
    /// ``admitsBesides(_:from:now:)`` returns false, it has answered the request.
    ///
    /// The limit does not apply to BYE and to requests of trusted peers (T32.3).
    func admitsBesides(_ incoming: IncomingRequest, from caller: Caller, now: Moment) -> Bool {
        guard incoming.request.method != .bye, !caller.isTrusted else { return true }
        let size = incoming.request.frame.bytes.count
        let parties = HeldShares.Parties(caller: caller)
        guard calls.shares.refusal(of: size, isInvite: false, for: parties, calls.limits, now: now.instant) != nil
        else { return true }
        output.counters.count(.shareUsedUp)
        refuse(
            incoming, .serviceUnavailable, because: .callerLimit, fields: [Self.retryAfter(seconds: 5)], now: now)
        return false
    }

    /// Whether the limits of the caller (T11.2) and of the user's domain (T41.5) allow a call to wake the user's phones
    /// now. A trusted peer may always wake phones, because a PBX limits its own callers.
    private func mayWake(
        _ count: Int, phonesOf aor: AddressOfRecord, for caller: Caller, _ incoming: IncomingRequest, now: Moment
    ) -> Bool {
        guard settings.call.pushesPerCaller == 0 || caller.isTrusted || ledger.admits(caller, now: now.instant) else {
            if let suppressed = ledger.tellsOfRefused(caller, now: now.instant) {
                log.warning(
                    "a caller has reached its limit of calls, so the daemon wakes no phone for this call",
                    [
                        .caller: .bytes(incoming.request.from.uri.text), .source: .described(incoming.flow.remote),
                        .suppressed: .number(suppressed),
                    ])
            }
            return false
        }
        guard let tenant = tenant(of: aor.host),
            !access.tenantPushes.admit(
                count, of: tenant, limit: settings.tenants[tenant].settings.pushes, now: now.instant)
        else { return true }
        if let suppressed = ledger.tellsOfRefused(caller, now: now.instant) {
            log.warning(
                "a domain has reached its limit of pushes, so the daemon wakes no phone for this call",
                [
                    .aor: .described(aor), .setting: .text("tenants.\(aor.host).pushes"),
                    .suppressed: .number(suppressed),
                ])
        }
        return false
    }

    /// Begins to proxy a request: keeps a copy without bearer tokens (T40.7), and gives the request a server
    /// transaction. If no server transaction is free, ``startProxying`` answers the request and returns `nil`.
    func startProxying(
        _ incoming: IncomingRequest, to devices: [DeviceID?], parties: HeldShares.Parties = .nobody,
        now: Moment
    ) -> (IncomingRequest, ProxiedRequest)? {
        guard let incoming = startTransaction(withoutTokens(incoming), now: now), let server = incoming.server else {
            return nil
        }
        let call = calls.begin(incoming, server, branches: devices.map(ForkBranch.init), parties: parties)
        if call.fork.isInvite {
            call.journalBegan()
            journalBegun(call, now: now)
        }
        return (incoming, call)
    }

    /// Returns the request without its bearer tokens, so that no token gets into the journal, into the store or to a
    /// peer (T40.7).
    func withoutTokens(_ incoming: IncomingRequest) -> IncomingRequest {
        guard takesTokens, let bytes = incoming.request.frame.withoutBearer(),
            let request = functions.reread(bytes)
        else { return incoming }
        return incoming.with(request)
    }
}

/// Parses the request of a call again from the bytes that the call has stored.
extension ProxyEngine {
    /// The parsed request of a call. A recent call still has its parsed request; for other calls, the request is parsed
    /// again.
    func revive(_ call: ProxiedRequest) -> IncomingRequest? {
        guard let request = call.recent ?? reread(call.request) else { return nil }
        let incoming = IncomingRequest(request, on: call.source, isTrusted: call.isTrusted).proved(by: call.sender)
        return call.server.map(incoming.matched) ?? incoming
    }

    func reread(_ request: KeptRequest) -> SIPRequest? { functions.reread(request.unpacked(functions.packing)) }
}
