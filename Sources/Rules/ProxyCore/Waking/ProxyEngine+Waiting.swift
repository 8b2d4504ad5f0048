import AccessLimits
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
import ServiceEvents
import Telemetry
import Timekeeping
import Waking

/// Sends requests to devices with several flows (RFC 5626): on one flow at a time, and on the next flow after a
/// failure.
extension ProxyEngine {
    /// The device with the flow on which its last message came.
    func liveWay(to target: ForkTarget, now: Moment) -> ForkTarget {
        guard network.flows.watchesActivity, !network.flows.wasAlive(target.flow, now: now.instant),
            registrar.bindings.hasFurtherFlows(target.binding)
        else { return target }
        return registrar.bindings.flowTargets(of: target.binding, now: now.instant)
            .first { !$0.hasFailed && hop(to: $0).isOpen && network.flows.wasAlive($0.flow, now: now.instant) }
            ?? target
    }

    /// Whether a request is in progress on another open flow of the device. If so, a REGISTER on a further flow does
    /// not mean that the device has moved.
    ///
    /// A device's second flow is treated as open after a response on the flow, and for five seconds after its
    /// registration.
    func isOnItsWay(_ branch: ForkBranch, by target: ForkTarget, now: Moment) -> Bool {
        guard branch.addressee == target.id, branch.routeHash != target.routeHash,
            registrar.bindings.hasFurtherFlows(target.binding)
        else { return false }
        return registrar.bindings.flowTargets(of: target.binding, now: now.instant).contains {
            $0.routeHash == branch.routeHash && hop(to: $0).isOpen
                && (branch.wasHeard || now.date - $0.registeredAt < Self.flowsComeUp)
        }
    }

    private static let flowsComeUp: Duration = .seconds(5)

    // MARK: Silence

    /// Sends a request on the next flow of its device after one flow has failed; returns false if every other flow has
    /// failed too.
    func goesOn(by client: ClientTransactionID, _ leg: BranchLeg, now: Moment) -> Bool {
        guard leg.call.fork.acceptsBranches, let next = nextFlow(of: leg, now: now) else { return false }
        log.info(
            "a flow to a phone failed, so the daemon sends the request on another flow of the phone",
            [.callID: .bytes(leg.call.userCall?.key.callID ?? .empty), .device: .described(next.id)])
        if leg.call.userCall != nil || leg.call.dialogRequest != nil {
            leg.call.fork.recalled(leg.branch)
            // The INVITE on the failed flow is cancelled, because the phone may ring if the flow is only slow.
            if leg.call.fork.isInvite, !sip.transactions.wasLost(client) {
                withTransactions { $0.cancel(client, reasons: [], now: now.instant, into: &$1) }
            }
            deliver(leg.branch, of: leg.call, to: next, now: now)
        } else if let incoming = revive(leg.call) {
            sip.legs.end(client)
            leg.call.delivery?.tried(at: now.instant)
            sendToDevice(incoming, for: leg.branch, of: leg.call, to: next, now: now)
        }
        return true
    }

    /// Marks the present flow of a fork branch as failed, and returns the device's next usable flow.
    private func nextFlow(of leg: BranchLeg, now: Moment) -> ForkTarget? {
        let branch = leg.call.fork.branches[leg.branch]
        guard let device = branch.addressee else { return nil }
        let flows = registrar.bindings.flowTargets(of: device, now: now.instant)
        guard flows.count > 1 else { return nil }
        for flow in flows where flow.routeHash == branch.routeHash { registrar.bindings.flowFailed(flow.binding) }
        return flows.first { $0.routeHash != branch.routeHash && !$0.hasFailed && hop(to: $0).isOpen }
    }

}

/// Offers a call to a device: decides whether the device gets the INVITE, a push, or both.
extension ProxyEngine {
    /// Whether a device gets the INVITE, a push, or both, when an INVITE for its user arrives.
    enum Treatment {
        /// The device gets the INVITE immediately.
        case ring
        /// The device gets a push, and the INVITE waits until the device registers.
        case wake
        /// The device gets the INVITE and a push, because the daemon cannot know which of the two reaches the phone
        /// first.
        case ringAndWake
    }

    /// Decides whether a device gets the INVITE, a push, or both (A9 in docs/ECSS-10.md).
    ///
    /// A device that can be reached gets no push within `call.skip-push-within` of its last REGISTER.
    func treatment(of target: ForkTarget, now: Moment) -> Treatment {
        guard target.canBeWoken else { return .ring }
        guard hop(to: target).isOpen, !target.hasFailed else { return .wake }
        if now.date - target.registeredAt < settings.call.skipPushWithin { return .ring }
        return network.flows.isLive(target, now: now) ? .ringAndWake : .wake
    }

    /// Sends the INVITE, a push, or both to one device.
    func offer(
        _ userCall: UserCall, to target: ForkTarget, _ treatment: Treatment, branch: Int, of call: ProxiedRequest,
        _ incoming: IncomingRequest, _ caller: CallerIdentity, now: Moment
    ) {
        guard !call.isForgotten else { return }
        list(branch, of: call, watching: treatment == .ring ? nil : target)
        if treatment != .ring, userCall.mayPush, let token = target.pushToken {
            let nonce = nonceForPush(to: userCall.aor, now: now)
            ledger.wake(
                target, token, for: branch, of: call, userCall, caller, nonce: nonce, now: now, into: &output.actions)
        } else {
            let (omission, app) = omission(of: target, treatment)
            ledger.began(branch, of: call, userCall, target.id, omission, app: app, now: now)
            if omission == .callerLimit { call.saw(.pushLimited) }
        }
        if treatment == .wake {
            call.fork.waits(branch)
            call.saw(.held)
            armHold(of: call, now: now)
            if userCall.mayPush { ask(target, now: now) }
        } else {
            sendToDevice(
                incoming, for: branch, of: call, to: target, mayBeAsleep: treatment == .ringAndWake, now: now)
        }
    }

    /// The reason why a device gets no push, and the provider of the device's token, for the timeline.
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
}

/// Sends a call to a device, or lets the call wait for the device.
extension ProxyEngine {
    /// Watches a device's flow for messages, because a call or message waits for the device. Messages on a flow of a
    /// trusted peer or edge proxy do not show that a device is awake, because many devices share the flow.
    func watch(_ target: ForkTarget) {
        if isWatched(target) { wakes.watch(target.flow, of: target.id) }
    }

    /// Lists the call in ``WakeDesk`` under the branch's device, so that the device's next REGISTER finds the call. If
    /// `target` is given, the next message on the flow of `target` also finds the call.
    func list(_ branch: Int, of call: ProxiedRequest, watching target: ForkTarget? = nil) {
        if let device = call.fork.branches[branch].device {
            call.fork.wasListed(branch)
            wakes.waits(call, for: device)
        }
        if let target, isWatched(target) { wakes.watch(target.flow, of: target.id) }
    }

    /// Starts the timer that ends a call's wait for phones, after the shorter of `call.ring-timeout` and the INVITE's
    /// Expires.
    ///
    /// If a call loses a phone after `call.ring-timeout`, the call still waits ten seconds for the phone.
    func armHold(of call: ProxiedRequest, now: Moment) {
        guard call.deadline == .none, let userCall = call.userCall else { return }
        let end = userCall.holdUntil > now.instant ? userCall.holdUntil : now.instant + Self.returnTime
        call.waits(until: output.timers.schedule(.holdDeadline(place: call.place), at: end))
    }

    /// A nonce for a push that wakes a user's phone; `nil` if phones need no password, or nonces in pushes are off.
    func nonceForPush(to user: AddressOfRecord, now: Moment) -> ByteString? {
        guard settings.authenticates, settings.digest.reusesNonces else { return nil }
        return access.digest.nonce(pushedTo: user, now: now.instant)
    }

    static let returnTime: Duration = .seconds(10)

    /// How long an INVITE waits for phones. The parameter `delay` is the time after which the last phones of the call
    /// begin to ring.
    func holdTime(of request: SIPRequest, adding delay: Duration = .zero) -> Duration {
        let wanted = settings.call.ringTimeout + delay
        guard let expires = request.expires else { return wanted }
        return min(wanted, .seconds(Int64(expires)))
    }

    /// Whether only the target's device sends messages on the target's flow.
    func isWatched(_ target: ForkTarget) -> Bool {
        target.isReachable && !target.flow.isClosed && target.path.isEmpty && !isTrusted(target.flow)
    }

    /// The present registration of the device that a fork branch sends its request to.
    func target(of leg: BranchLeg, now: Moment) -> ForkTarget? {
        leg.call.fork.branches[leg.branch].addressee.flatMap { registrar.bindings.forkTarget($0, now: now.instant) }
    }

    /// Sends the INVITE of a branch to its device, because the device has registered or has moved to another flow.
    func deliver(_ branch: Int, of call: ProxiedRequest, to target: ForkTarget, now: Moment) {
        if let request = call.dialogRequest { return deliver(request, of: call, to: target, now: now) }
        guard let userCall = call.userCall, let incoming = revive(call) else { return }
        // A forwarded INVITE whose destination does not ring yet is cancelled, because the phone has registered.
        if call.fork.isForwardPending { update(call, now: now) { $0.forwardWithdrawn() } }
        ledger.drop(branch, of: call, now: now, into: &output.actions)
        let isFirst = !call.fork.branches[branch].hasMoved
        if call.fork.branches[branch].isWaiting {
            let format = settings.call.callerIDFormat
            output.events.woken(
                target.id, for: userCall, from: CallerIdentity(incoming.request, format: format).remoteURI, now: now,
                into: &output.actions)
        }
        if isFirst {
            output.counters.count(.heldDelivered)
            output.counters.observe(.delivery, now.date - userCall.receivedAt)
        }
        log.info(
            isFirst
                ? "the called phone is awake, so the daemon sends the held INVITE to the phone"
                : "the called phone has a new flow, so the daemon sends the INVITE again on that flow",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .device: .described(target.id),
                .duration: .duration(now.date - userCall.receivedAt),
            ])
        // The timeline gets the device's REGISTER only when the call is sent, because an earlier REGISTER may have
        // another reason than the call.
        ledger.registered(call.fork.branches[branch], now: now)
        if !isFirst { takeBack(call.fork.branches[branch].former, by: target, now: now) }
        sendToDevice(incoming, for: branch, of: call, to: target, now: now)
    }

    /// Sends, on the phone's present flow, the CANCEL of INVITEs whose connections have ended. A ringing phone
    /// recognises the CANCEL by the branch parameter (RFC 3261 section 9.2).
    func takeBack(_ former: [ClientTransactionID], by target: ForkTarget, now: Moment) {
        for client in former where sip.transactions.wasLost(client) && target.path.isEmpty {
            takeBack(client, by: target.flow, reasons: [], now: now)
        }
    }

    func takeBack(_ client: ClientTransactionID, by flow: Flow, reasons: [ByteString], now: Moment) {
        withTransactions { table, out in
            table.move(client, to: flow, now: now.instant, into: &out)
            table.cancel(client, reasons: reasons, now: now.instant, into: &out)
        }
    }

    /// Moves an earlier transaction with a closed connection to the phone's present flow, so that a lost CANCEL is sent
    /// again.
    func takeBackAlone(_ client: ClientTransactionID, of leg: BranchLeg, now: Moment) {
        guard let target = target(of: leg, now: now), target.path.isEmpty, !target.flow.isClosed else { return }
        withTransactions { $0.move(client, to: target.flow, now: now.instant, into: &$1) }
    }

    /// Lets a fork branch wait for its device again, and sends a push if the device has got none yet. If the device's
    /// node has ended, the device gets another push.
    func waitAgain(_ index: Int, of call: ProxiedRequest, for target: ForkTarget, now: Moment) {
        guard let userCall = call.userCall else { return }
        log.info(
            "the called phone cannot be reached any more, so the call waits for the phone again",
            [
                .aor: .described(userCall.aor), .callID: .bytes(userCall.key.callID), .device: .described(target.id),
            ])
        call.saw(.heldAgain)
        armHold(of: call, now: now)
        watch(target)
        let format = settings.call.callerIDFormat
        output.events.held(
            call, from: revive(call).map { CallerIdentity($0.request, format: format).remoteURI }, isAgain: true,
            now: now, into: &output.actions)
        if !call.fork.branches[index].wasPushed || network.flows.hasLostNode(target.path) {
            wake(target, for: index, of: call, now: now)
        }
        journal(call)
    }

    /// Sends another push for each call that waits for a phone, because the phone's node has ended. The phone may have
    /// woken and registered there only.
    func wakeAgain(_ device: DeviceID, now: Moment) {
        guard let target = registrar.bindings.forkTarget(device, now: now.instant) else { return }
        for call in wakes.calls(of: device) {
            guard let index = call.fork.waitingBranch(of: device), call.fork.branches[index].wasPushed else { continue }
            wake(target, for: index, of: call, now: now)
            journal(call)
        }
    }

    /// Sends a push for a fork branch that waits for its device again.
    private func wake(_ target: ForkTarget, for index: Int, of call: ProxiedRequest, now: Moment) {
        let branch = call.fork.branches[index]
        guard let token = target.pushToken, branch.push == nil, let userCall = call.userCall, userCall.mayPush,
            let incoming = revive(call)
        else { return }
        let caller = CallerIdentity(incoming.request, format: settings.call.callerIDFormat)
        if !branch.deviceKnows {
            ledger.callOffered(
                userCall, from: caller, at: userCall.receivedAt, to: [target.id], into: &output.actions)
        }
        ledger.ended(index, of: call, .unreachable, now: now, into: &output.actions)
        let nonce = nonceForPush(to: userCall.aor, now: now)
        ledger.wake(
            target, token, for: index, of: call, userCall, caller, nonce: nonce, now: now, into: &output.actions)
    }
}

/// Tests whether a silent phone is awake, by an OPTIONS on the phone's connection at the same time as the push.
extension ProxyEngine {
    /// Sends an OPTIONS on the flow of a phone for which a call waits.
    ///
    /// Any response to the OPTIONS shows that the phone is awake, and releases the call
    /// (``noteLife(on:by:isProved:now:)``). A sleeping phone with an open connection does not answer the OPTIONS, so
    /// the call keeps waiting. While an OPTIONS has no response, later calls to the phone cause no second OPTIONS.
    func ask(_ target: ForkTarget, now: Moment) {
        guard mayAsk(target), !isAsked(by: target.flow), let listener = identity.listener(for: target.flow),
            let domain = registrar.bindings.binding(target.binding)?.aor.host,
            ask(.phone, at: target.requestURI, as: domain, on: target.flow, by: listener, now: now)
        else { return }
        output.counters.count(.phoneAsked)
    }

    /// Whether an OPTIONS may be sent on the phone's flow. Flows of trusted peers and edge proxies get no OPTIONS,
    /// because many phones share such a flow.
    private func mayAsk(_ target: ForkTarget) -> Bool {
        guard target.flow.isConnection || !target.flow.transport.isReliable && settings.call.asksDatagrams else {
            return false
        }
        return settings.call.asksConnections && isWatched(target)
    }
}
