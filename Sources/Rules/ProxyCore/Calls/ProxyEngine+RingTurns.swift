import Addressing
import Bytes
import Calling
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
import Waking

/// Lets the devices of a user ring one after the other: by the parameter `q` of their contacts (RFC 3261 section 16.6),
/// or by the rules of the user.
///
/// Each device has its branch from the beginning. The branch of a later device is delayed: its phone gets neither the
/// INVITE nor a push, but the call is already in the phone's list of missed calls.
extension ProxyEngine {
    // MARK: The plan

    /// Decides which devices of a user ring at once for a new call, which later, and which not at all.
    func ringPlan(
        for targets: [ForkTarget], of aor: AddressOfRecord, from incoming: IncomingRequest, now: Moment
    ) -> RingPlan {
        guard settings.call.ringOrder != .parallel || !calls.rules.isEmpty else { return RingPlan() }
        return RingPlan(
            turns: targets.count > 1 ? turns(of: Array(targets.enumerated().map { ($0, $1) }), aor) : nil,
            silence: silence(of: aor, from: incoming, now: now))
    }

    /// The turns of the devices of a user; `nil` if all devices ring at the same time.
    private func turns(of targets: [(branch: Int, target: ForkTarget)], _ aor: AddressOfRecord) -> RingTurns? {
        let rules = calls.rules[aor]
        let order = rules?.order ?? settings.call.ringOrder
        guard order != .parallel || rules?.delays.isEmpty == false else { return nil }
        let members = targets.map { branch, target in
            RingTurns.Member(branch: branch, q: target.q, delay: rules?.delay(of: ruled(target)))
        }
        let groupTime = rules?.groupMilliseconds.map { Duration.milliseconds($0) } ?? settings.call.groupTime
        return RingTurns(members, order, groupTime: groupTime)
    }

    /// The properties of a device that its user's rules use.
    func ruled(_ target: ForkTarget) -> RuledDevice {
        RuledDevice(
            id: target.id,
            label: registrar.bindings.label(of: target.binding, settings.registrar.labelSources)?.string ?? "",
            canBeWoken: target.canBeWoken)
    }

    // MARK: The beginning

    /// Lets the withheld devices of a new call wait: for their turns, or until ``notDisturbed(_:_:_:_:now:)`` ends the
    /// call.
    func delay(_ call: ProxiedRequest, _ userCall: UserCall, _ targets: [ForkTarget], _ plan: RingPlan, now: Moment) {
        for index in targets.indices { call.fork.delays(index) }
        guard plan.silence == nil, let turns = plan.turns else { return }
        let first = targets.indices.filter { turns.start(of: $0) == .zero }.map { targets[$0].id.name }
        calls.takesTurns(call, turns, since: now.instant)
        for index in calls.takeTurns(of: call, isNext: false, now: now.instant) { call.fork.turnCame(index) }
        for (index, target) in targets.enumerated() where call.fork.branches[index].isDelayed {
            list(index, of: call)
            let start = turns.start(of: index) ?? .zero
            ledger.began(
                index, of: call, userCall, target.id, .delayed, app: "",
                reason: "\(Self.seconds(start)) s for \(first.joined(separator: ", "))", now: now)
        }
        armTurn(of: call, now: now)
    }

    /// A duration in seconds, as text with at most three decimals.
    private static func seconds(_ duration: Duration) -> String {
        let milliseconds = duration.nanoseconds / 1_000_000
        guard milliseconds % 1000 != 0 else { return "\(milliseconds / 1000)" }
        return "\(Double(milliseconds) / 1000)"
    }

    private func armTurn(of call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall, let turns = calls.turns(of: call), let start = turns.order.nextStart else {
            return
        }
        // If the INVITE has the header field Expires, the call can end before the turn of a device comes.
        let due = turns.since + start
        guard due < userCall.holdUntil else { return }
        _ = output.timers.schedule(.turnDue(place: call.place, call.id), at: max(due, now.instant))
    }

    // MARK: The next turn

    /// Lets the next group of devices ring, because its time has come, and returns the branches of these devices.
    func turnDue(of call: ProxiedRequest, now: Moment) -> [Int] {
        guard call.fork.acceptsBranches, call.userCall != nil else { return [] }
        let due = calls.takeTurns(of: call, isNext: false, now: now.instant)
        guard !due.isEmpty else {
            armTurn(of: call, now: now)
            return []
        }
        let earlier = call.fork.branches.indices.filter {
            !call.fork.branches[$0].isEnded && !call.fork.branches[$0].isDelayed
        }
        ring(due, of: call, now: now)
        guard calls.turns(of: call)?.order.isInTurn == true else { return due }
        for branch in earlier { endTurn(of: branch, of: call, now: now) }
        return due
    }

    /// Lets the next group of devices ring early, because all devices that rang have failed, and returns the branches
    /// of this group. For a call of the daemon's earlier run, the turns are computed first.
    func nextTurnWanted(of call: ProxiedRequest, now: Moment) -> [Int] {
        guard let userCall = call.userCall, !call.isForgotten else { return [] }
        var rung = calls.turns(of: call) == nil ? turnsResumed(call, userCall, now: now) : []
        // If the phones of a group cannot be reached, the group after it rings at once.
        while !call.isForgotten, call.fork.isReadyForNextGroup {
            let next = now.instant < userCall.holdUntil ? calls.takeTurns(of: call, isNext: true, now: now.instant) : []
            guard !next.isEmpty else {
                update(call, now: now) { $0.endDelays() }
                break
            }
            ring(next, of: call, now: now)
            rung += next
        }
        return rung
    }

    /// Offers a call to devices whose turn has come: awake devices get the INVITE, and sleeping devices get a push.
    private func ring(_ branches: [Int], of call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall, let incoming = revive(call) else { return }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        log.info(
            "the daemon offers the call to further phones, because their turn in the ring order has come",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .count: .number(branches.count),
                .duration: .duration(now.date - userCall.receivedAt),
            ])
        for index in branches where call.fork.branches[index].isDelayed {
            guard call.fork.acceptsBranches else { break }
            ledger.ended(index, of: call, .turnCame, now: now, into: &output.actions)
            call.fork.turnCame(index)
            guard
                let target = call.fork.branches[index].device.flatMap({
                    registrar.bindings.forkTarget($0, now: now.instant)
                })
            else {
                branchFailed(index, of: call, with: .temporarilyUnavailable, now: now)
                continue
            }
            let way = network.flows.watchesActivity ? liveWay(to: target, now: now) : target
            offer(
                userCall, to: way, treatment(of: way, now: now), branch: index, of: call, incoming, caller, now: now)
        }
        guard !call.isForgotten else { return }
        journal(call)
        armTurn(of: call, now: now)
        shortenHold(of: call, now: now)
    }

    /// Lets the call wait for phones only for the ring timeout, if the last devices have begun earlier than planned.
    private func shortenHold(of call: ProxiedRequest, now: Moment) {
        guard call.deadline != .none, calls.turns(of: call)?.order.nextStart == nil, let userCall = call.userCall,
            now.instant + settings.call.ringTimeout < userCall.holdUntil
        else { return }
        output.timers.cancel(call.stopsWaiting())
        call.waits(
            until: output.timers.schedule(
                .holdDeadline(place: call.place), at: now.instant + settings.call.ringTimeout))
    }

    /// Stops the ringing of a phone, because the next devices have begun to ring.
    private func endTurn(of branch: Int, of call: ProxiedRequest, now: Moment) {
        guard !call.isForgotten, call.fork.acceptsBranches, !call.fork.branches[branch].isEnded else { return }
        ledger.ended(branch, of: call, .turnOver, now: now, into: &output.actions)
        if call.fork.branches[branch].isWaiting { return update(call, now: now) { $0.turnIsOver(branch) } }
        if let client = call.fork.branches[branch].client {
            let reasons = [ByteString("SIP;cause=408;text=\"Request Timeout\"")]
            withTransactions { $0.cancel(client, reasons: reasons, now: now.instant, into: &$1) }
        }
        branchFailed(branch, of: call, with: .requestTimeout, now: now)
    }

    // MARK: After a restart

    /// Continues the turns of a call of the daemon's earlier run; devices whose time has come meanwhile ring at once.
    ///
    /// The turns are computed again from the present rules and settings, because the journal has only the devices.
    private func turnsResumed(_ call: ProxiedRequest, _ userCall: UserCall, now: Moment) -> [Int] {
        let targets = call.fork.branches.indices.compactMap { index in
            call.fork.branches[index].device
                .flatMap { registrar.bindings.forkTarget($0, now: now.instant) }
                .map { (branch: index, target: $0) }
        }
        if let turns = turns(of: targets, userCall.aor) {
            calls.takesTurns(call, turns, since: now.instant + min(userCall.receivedAt - now.date, .zero))
            let due = calls.takeTurns(of: call, isNext: false, now: now.instant)
                .filter { call.fork.branches[$0].isDelayed }
            ring(due, of: call, now: now)
            return due
        }
        let all = Array(call.fork.branches.indices)
        ring(all, of: call, now: now)
        return all
    }
}

/// Lets no device of a user ring during the user's do-not-disturb times.
extension ProxyEngine {
    /// When the user's do-not-disturb ends; `nil` if the user's devices ring for the caller.
    private func silence(of aor: AddressOfRecord, from incoming: IncomingRequest, now: Moment) -> DoNotDisturb.End? {
        guard let end = calls.rules.silence(of: aor, at: now.date) else { return nil }
        let caller = incoming.sender
        let (user, domain) =
            (caller?.user ?? incoming.request.from.uri.user ?? .empty, caller?.host ?? incoming.request.from.uri.host)
        let isExcepted = calls.rules[aor]?.doNotDisturb?.excepts(user: user.string, domain: domain.string) == true
        return isExcepted ? nil : end
    }

    /// Ends a new call during the user's do-not-disturb times. The call becomes a missed call of the user's phones. The
    /// caller gets the status in the user's rules, unless `call.no-wake` redirects or forwards the call.
    func notDisturbed(
        _ call: ProxiedRequest, _ userCall: UserCall, _ targets: [ForkTarget], _ end: DoNotDisturb.End, now: Moment
    ) {
        call.saw(.notDisturbed)
        let plan = noWakePlan(of: call)
        let status: Status? =
            switch plan {
            case .answer: calls.silenceStatus(of: call)
            case .redirect: plan.status
            case .forward: nil
            }
        for (index, target) in targets.enumerated() {
            ledger.began(index, of: call, userCall, target.id, .doNotDisturb, app: "", reason: "\(end)", now: now)
            ledger.ended(index, of: call, .notOffered, status: status?.code, now: now, into: &output.actions)
        }
        update(call, now: now) { $0.endDelays() }
    }
}
