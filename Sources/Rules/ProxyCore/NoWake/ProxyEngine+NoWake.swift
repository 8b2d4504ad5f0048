import Addressing
import Bytes
import Calling
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import Waking

/// Ends or forwards calls whose phones do not wake.
extension ProxyEngine {
    /// Decides whether a new call can be forwarded if no phone wakes, and starts the timer that can end the wait early.
    func noWakeBegan(_ call: ProxiedRequest, now: Moment) {
        let noWake = settings.call.noWake
        guard !noWake.isUsual, let userCall = call.userCall, !call.isForgotten else { return }
        let own = noWake.settings(for: userCall.aor)
        if own.action == .forward { call.fork.allowsForward(noWakePlan(of: call).forwards) }
        noWakeGoesOn(Array(call.fork.branches.indices), of: call, now: now)
    }

    /// Notes that the given devices of a call are being woken, if the setting `call.no-wake.learn` limits how long
    /// calls wait.
    func noWakeGoesOn(_ branches: [Int], of call: ProxiedRequest, now: Moment) {
        let noWake = settings.call.noWake
        guard !noWake.isUsual, let userCall = call.userCall, !call.isForgotten,
            noWake.settings(for: userCall.aor).usesRecord
        else { return }
        for index in branches where call.fork.branches[index].isWaiting {
            if let device = call.fork.branches[index].device { wakes.records.called(device, now: now.instant) }
        }
        armWakeBound(of: call, now: now)
    }

    // MARK: A forward

    /// Forwards a call for which no phone has registered: sends the INVITE through the upstream to the forward URI in
    /// the settings.
    func forwardWanted(_ call: ProxiedRequest, now: Moment) {
        // A call that its caller has cancelled is not forwarded.
        guard call.fork.acceptsBranches else { return }
        guard case .forward(let uri, _) = noWakePlan(of: call), let userCall = call.userCall,
            let upstream = upstream(of: userCall.aor.host)?.hop, let incoming = revive(call)
        else { return update(call, now: now) { $0.forwardImpossible() } }
        output.counters.count(.callForwarded)
        log.info(
            "no phone woke, so the daemon forwards the call",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .target: .bytes(uri),
            ])
        let hasDevices = call.hasDevices
        let branch = call.fork.forwarded()
        if !hasDevices { ledger.began(branch, of: call, userCall, .nobody, .noContact, app: "", now: now) }
        output.timers.cancel(call.deadline)
        call.waits(
            until: output.timers.schedule(.holdDeadline(place: call.place), at: now.instant + settings.call.ringTimeout)
        )
        var edits = RequestEdits(requestURI: uri, via: .empty, maxForwards: 70)
        edits.routes = []
        addDiversion(&edits, incoming, of: userCall)
        sendToHop(incoming, edits, for: branch, of: call, to: upstream, now: now)
        journal(call)
    }

    /// Adds a Diversion header field above the existing Diversion fields, because a voice-mail server takes the mailbox
    /// from the topmost field (RFC 5806 section 4.1).
    func addDiversion(_ edits: inout RequestEdits, _ incoming: IncomingRequest, of userCall: UserCall) {
        let earlier = incoming.request.frame.values(of: .diversion).map { AddedField("Diversion", $0) }
        edits.removed.append(.diversion)
        edits.added += [Diversions.field(for: userCall.aor)] + earlier
    }

    /// Continues the forwarding of a call that was forwarded before the daemon restarted. After a restart, the
    /// destination of a forwarded call gets the whole ringing time again.
    func forwardResumed(_ call: ProxiedRequest, now: Moment) {
        guard call.fork.isForwardPending else {
            guard !settings.call.noWake.isUsual, !call.fork.hasForward, call.userCall != nil else { return }
            call.fork.allowsForward(noWakePlan(of: call).forwards)
            return
        }
        output.timers.cancel(call.deadline)
        call.waits(
            until: output.timers.schedule(.holdDeadline(place: call.place), at: now.instant + settings.call.ringTimeout)
        )
    }

    /// Cancels the branch to the destination of a forwarded call, because the destination has neither rung nor answered
    /// in time.
    func forwardTimedOut(_ call: ProxiedRequest, now: Moment) {
        for branch in call.fork.branches.indices where call.fork.branches[branch].isWaiting {
            missed(branch, of: call, now: now)
            ledger.ended(branch, of: call, .timeOver, now: now, into: &output.actions)
        }
        update(call, now: now) { $0.forwardTimedOut() }
    }

    // MARK: 180 after the push

    /// Handles a provider's acceptance of a call's push: sends the caller 180 if the settings demand it, and counts the
    /// push for the device.
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

    /// Sends the caller 180 after a push was accepted, although no phone rings yet. A caller that requires `100rel`
    /// gets no 180 after a push, because a PRACK needs a dialog with a phone.
    private func ringForPush(_ call: ProxiedRequest, now: Moment) {
        guard !call.marks.contains(.rungForPush), !call.fork.branches.contains(where: \.deviceKnows),
            let server = call.server, let incoming = revive(call), !requiresReliability(incoming.request)
        else { return }
        call.saw(.rungForPush)
        respond(server, 180, incoming.response(180, toTag: sip.tags.next(), fields: []), now: now)
    }

    private func requiresReliability(_ request: SIPRequest) -> Bool {
        request.frame.values(of: .require).contains { row in
            row.split(at: [UInt8(ascii: ",")]).contains { $0.trimmed().equalsIgnoringCase("100rel") }
        }
    }

    // MARK: Phones' own records

    private func armWakeBound(of call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall else { return }
        let ends = call.fork.branches.indices.compactMap { wakeBound($0, of: call, userCall, now: now) }
        guard let first = ends.min(), first < userCall.holdUntil else { return }
        _ = output.timers.schedule(.wakeBound(place: call.place, call.id), at: max(first, now.instant))
    }

    /// The time at which a branch stops waiting for its phone, computed from the phone's earlier wakes; `nil` without
    /// such a limit.
    private func wakeBound(
        _ index: Int, of call: ProxiedRequest, _ userCall: UserCall, now: Moment
    ) -> Instant? {
        let branch = call.fork.branches[index]
        guard branch.isWaiting, !branch.hasMoved, let device = branch.device else { return nil }
        let turn = calls.turns(of: call)?.order.begun(index) ?? .zero
        let began = now.instant + (userCall.receivedAt - now.date) + turn
        return switch wakes.records.bound(of: device) {
        case .none: nil
        case .after(let duration): began + duration
        // A call waits a few seconds even for a phone that never wakes, so that the phone gets a push and its wake can
        // be measured.
        case .notWaited: began + WakeRecords.shortest
        }
    }

    /// Ends a call's wait for each phone that is unlikely to wake, because its earlier wakes were faster.
    func wakeBoundReached(_ call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall, call.fork.acceptsBranches, !call.fork.isForwardPending else { return }
        for branch in call.fork.branches.indices {
            guard let end = wakeBound(branch, of: call, userCall, now: now), end <= now.instant else {
                continue
            }
            endWait(branch, of: call, now: now)
            guard !call.isForgotten, call.fork.acceptsBranches else { return }
        }
        armWakeBound(of: call, now: now)
    }

    private func endWait(_ branch: Int, of call: ProxiedRequest, now: Moment) {
        guard call.fork.branches[branch].isWaiting else { return }
        call.saw(.timeOver)
        // The branch of a forwarded call still waits for its phone until the forward destination rings.
        if call.fork.forwardsAfter(branch) { return update(call, now: now) { $0.waitIsOver(branch) } }
        output.counters.count(.heldTimedOut)
        let isNotWaited = call.fork.branches[branch].device.map { wakes.records.bound(of: $0) } == .notWaited
        missed(branch, of: call, now: now)
        ledger.ended(branch, of: call, isNotWaited ? .notWaited : .boundReached, now: now, into: &output.actions)
        update(call, now: now) { $0.waitIsOver(branch) }
    }
}
