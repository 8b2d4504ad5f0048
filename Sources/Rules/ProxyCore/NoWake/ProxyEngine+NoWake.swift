import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Calls for which no phone wakes: their final responses, and forwards through the upstream.
extension ProxyEngine {
    /// The treatment of a call to a user if no phone wakes.
    func noWakePlan(of call: ProxiedRequest) -> NoWakePlan {
        guard let userCall = call.userCall else { return .answer(.temporarilyUnavailable) }
        return noWakePlan(for: userCall.aor, isTrusted: call.isTrusted) { revive(call)?.request }
    }

    /// The same for an INVITE that is no call yet. `request` is not called for most INVITEs.
    private func noWakePlan(
        for aor: AddressOfRecord, isTrusted: Bool, _ request: () -> SIPRequest?
    ) -> NoWakePlan {
        let noWake = settings.call.noWake
        var circumstances = NoWakePlan.Circumstances(
            isTrusted: isTrusted, hasUpstream: settings.upstream != nil && !upstreamWatch.health.refuses,
            wasDiverted: false)
        if isTrusted, noWake.settings(for: aor).action != .answer, let request = request() {
            let diversions = Diversions(request.frame)
            circumstances.wasDiverted = diversions.count >= Diversions.most || diversions.names(aor)
        }
        return NoWakePlan(noWake, for: aor, circumstances)
    }

    /// An INVITE came for a user without any contact: there is nobody to wake.
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

    /// Whether an INVITE is a forwarded call that comes back to the user who forwarded it.
    func comesBack(_ incoming: IncomingRequest, to aor: AddressOfRecord) -> Bool {
        guard incoming.isTrusted, incoming.request.frame.contains(.diversion),
            settings.call.noWake.settings(for: aor).action == .forward
        else { return false }
        return Diversions(incoming.request.frame).comesBack(to: aor)
    }

    /// The call has begun: the fork learns whether a forward follows, and the phones' records bound the wait.
    func noWakeBegan(_ call: ProxiedRequest, now: Moment) {
        let noWake = settings.call.noWake
        guard !noWake.isUsual, let userCall = call.userCall, !call.isForgotten else { return }
        let own = noWake.settings(for: userCall.aor)
        if own.action == .forward { call.fork.mayForward = noWakePlan(of: call).forwards }
        guard own.usesRecord else { return }
        for branch in call.fork.branches where branch.isWaiting {
            if let device = branch.device { wakes.records.called(device, now: now.instant) }
        }
        armWakeBound(of: call, now: now)
    }

    // MARK: The final response

    /// The final response to a call for which no phone woke, and its fields.
    func noWakeAnswer(of call: ProxiedRequest) -> (Status, [AddedField]) {
        let plan = noWakePlan(of: call)
        if case .redirect = plan { call.marks.insert(.redirected) }
        return (plan.status, plan.fields)
    }

    // MARK: A forward

    /// No phone has come: the INVITE goes to the destination of the settings through the upstream.
    func forward(_ call: ProxiedRequest, now: Moment) {
        guard case .forward(let uri, _) = noWakePlan(of: call), let upstream = settings.upstream,
            let userCall = call.userCall, let incoming = revive(call)
        else { return update(call, now: now) { $0.forwardImpossible() } }
        output.counters.count(.callForwarded)
        log.info(
            "call forwarded",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .target: .bytes(uri),
            ])
        let hasDevices = call.hasDevices
        let branch = call.fork.forwarded()
        if !hasDevices { ledger.began(branch, of: call, userCall, .nobody, .noContact, app: "", now: now) }
        output.timers.cancel(call.deadline)
        call.deadline = output.timers.schedule(
            .holdDeadline(place: call.place), at: now.instant + settings.call.ringTimeout)
        var edits = RequestEdits(requestURI: uri, via: .empty, maxForwards: 70)
        edits.routes = []
        addDiversion(&edits, incoming, of: userCall)
        sendToHop(incoming, edits, for: branch, of: call, to: upstream, now: now)
        journal(call)
    }

    /// The field is the first of its kind, since the first names the mailbox (RFC 5806 section 4.1).
    func addDiversion(_ edits: inout RequestEdits, _ incoming: IncomingRequest, of userCall: UserCall) {
        let earlier = incoming.request.frame.values(of: .diversion).map { AddedField("Diversion", $0) }
        edits.removed.append(.diversion)
        edits.added += [Diversions.field(for: userCall.aor)] + earlier
    }

    /// A forward's destination has responded. If it rings or has answered, the phones are given up.
    func noteForwardHeard(_ leg: BranchLeg, _ status: Status, now: Moment) {
        let call = leg.call
        guard call.fork.isForwardPending, call.fork.isForward(leg.branch), (180..<300).contains(status.code) else {
            return
        }
        output.timers.cancel(call.deadline)
        call.deadline = .none
        ledger.ended(leg.branch, of: call, .forwarded, now: now, into: &output.actions)
        for branch in call.fork.branches.indices where call.fork.branches[branch].isWaiting {
            noteMissed(branch, of: call, now: now)
            ledger.ended(branch, of: call, .forwarded, now: now, into: &output.actions)
        }
    }

    /// A call of an earlier run goes on. The destination of its forward has the time that a new forward has. A call that was
    /// not forwarded yet may be forwarded at the end of its wait.
    func forwardResumed(_ call: ProxiedRequest, now: Moment) {
        guard call.fork.isForwardPending else {
            guard !settings.call.noWake.isUsual, !call.fork.hasForward, call.userCall != nil else { return }
            call.fork.mayForward = noWakePlan(of: call).forwards
            return
        }
        output.timers.cancel(call.deadline)
        call.deadline = output.timers.schedule(
            .holdDeadline(place: call.place), at: now.instant + settings.call.ringTimeout)
    }

    /// A phone has come after all: the forward is cancelled.
    func withdrawForward(of call: ProxiedRequest, now: Moment) {
        if call.fork.isForwardPending { update(call, now: now) { $0.forwardWithdrawn() } }
    }

    /// The forward's destination neither rings nor answers.
    func forwardTimedOut(_ call: ProxiedRequest, now: Moment) {
        for branch in call.fork.branches.indices where call.fork.branches[branch].isWaiting {
            noteMissed(branch, of: call, now: now)
            ledger.ended(branch, of: call, .timeOver, now: now, into: &output.actions)
        }
        update(call, now: now) { $0.forwardTimedOut() }
    }

    // MARK: 180 after the push

    /// A provider has accepted a push for the call.
    func pushAccepted(_ branch: Int, of call: ProxiedRequest, now: Moment) {
        let noWake = settings.call.noWake
        guard !noWake.isUsual, let userCall = call.userCall, call.fork.acceptsBranches,
            call.fork.branches[branch].isWaiting
        else { return }
        let own = noWake.settings(for: userCall.aor)
        if own.ringsAfterPush { ringForPush(call, now: now) }
        guard own.usesRecord, let device = call.fork.branches[branch].device else { return }
        wakes.records.pushed(device)
        if wakes.records.bound(of: device) == .notWaited { endWait(branch, of: call, now: now) }
    }

    /// The caller hears ringing before a phone rings. A caller who requires reliable provisional responses does not: this
    /// one has no dialog in which a PRACK could come.
    private func ringForPush(_ call: ProxiedRequest, now: Moment) {
        guard !call.marks.contains(.rungForPush), !call.fork.branches.contains(where: \.deviceKnows),
            let server = call.server, let incoming = revive(call), !requiresReliability(incoming.request)
        else { return }
        call.marks.insert(.rungForPush)
        respond(server, 180, incoming.response(180, toTag: sip.tags.next(), fields: []), now: now)
    }

    private func requiresReliability(_ request: SIPRequest) -> Bool {
        request.frame.values(of: .require).contains { row in
            row.split(at: [UInt8(ascii: ",")]).contains { $0.trimmed().equalsIgnoringCase("100rel") }
        }
    }

    // MARK: Phones' own records

    /// A device has registered, or shown life in a way that nobody else can pretend.
    func noteReturned(_ device: DeviceID, now: Moment) {
        if !wakes.records.isEmpty { wakes.records.returned(device, now: now.instant) }
    }

    /// A response in a transaction of the branch proves that its phone is awake. A 408, 430 or 503 may be an edge's.
    func noteReturned(_ leg: BranchLeg, _ status: Status, now: Moment) {
        guard !wakes.records.isEmpty, status != .requestTimeout, status != .flowFailed, status != .serviceUnavailable,
            let device = leg.call.fork.branches[leg.branch].device
        else { return }
        noteReturned(device, now: now)
    }

    /// A call stops waiting for the branch's device.
    func noteMissed(_ branch: Int, of call: ProxiedRequest, now: Moment) {
        guard !wakes.records.isEmpty, let device = call.fork.branches[branch].device else { return }
        wakes.records.missed(device, now: now.instant)
    }

    private func armWakeBound(of call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall else { return }
        let ends = call.fork.branches.compactMap { wakeBound($0, userCall, now: now) }
        guard let first = ends.min(), first < userCall.holdUntil else { return }
        _ = output.timers.schedule(.wakeBound(place: call.place, call.id), at: max(first, now.instant))
    }

    /// When the wait for a branch ends by the record of its device; `nil` if the record says nothing.
    private func wakeBound(_ branch: ForkBranch, _ userCall: UserCall, now: Moment) -> Instant? {
        guard branch.isWaiting, !branch.hasMoved, let device = branch.device else { return nil }
        let began = now.instant + (userCall.receivedAt - now.date)
        return switch wakes.records.bound(of: device) {
        case .none: nil
        case .after(let duration): began + duration
        // Its push should have left by then, so that the phone can show that it works again.
        case .notWaited: began + WakeRecords.shortest
        }
    }

    /// The records of one or several phones say that the call need not wait for them any longer.
    func wakeBoundReached(_ call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall, call.fork.acceptsBranches, !call.fork.isForwardPending else { return }
        for branch in call.fork.branches.indices {
            guard let end = wakeBound(call.fork.branches[branch], userCall, now: now), end <= now.instant else {
                continue
            }
            endWait(branch, of: call, now: now)
            guard !call.isForgotten, call.fork.acceptsBranches else { return }
        }
        armWakeBound(of: call, now: now)
    }

    private func endWait(_ branch: Int, of call: ProxiedRequest, now: Moment) {
        guard call.fork.branches[branch].isWaiting else { return }
        call.marks.insert(.timeOver)
        // The phone is waited for as long as the forward has not rung.
        if call.fork.forwardsAfter(branch) { return update(call, now: now) { $0.waitIsOver(branch) } }
        output.counters.count(.heldTimedOut)
        let isNotWaited = call.fork.branches[branch].device.map { wakes.records.bound(of: $0) } == .notWaited
        noteMissed(branch, of: call, now: now)
        ledger.ended(branch, of: call, isNotWaited ? .notWaited : .boundReached, now: now, into: &output.actions)
        update(call, now: now) { $0.waitIsOver(branch) }
    }
}
