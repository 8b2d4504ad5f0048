import Addressing
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

extension ProxyEngine {
    /// Starts the clock of a held INVITE: the ring timeout, lowered by the INVITE's own Expires.
    func hold(_ fork: ForkID, for request: SIPRequest, now: Moment) {
        let deadline = now.instant + holdTime(of: request)
        forks[fork]?.deadline = timers.schedule(.holdDeadline(fork), at: deadline)
    }

    func holdTime(of request: SIPRequest) -> Duration {
        guard let expires = request.expires else { return settings.ringTimeout }
        return min(settings.ringTimeout, .seconds(Int64(expires)))
    }

    /// Sends every INVITE that waits for this device on the flow it has just registered from, each once (R17).
    ///
    /// With `contact` on that contact's flow instead, unless the call has gone there already.
    func release(_ device: BindingID, through contact: BindingID? = nil, now: Moment) {
        guard let held = waiting.removeValue(forKey: device) else { return }
        for fork in held {
            guard let context = forks[fork], let call = context.call,
                let branch = context.fork.sleepingBranch(of: device), context.fork.acceptsBranches,
                let incoming = revive(context),
                let target = bindings.forkTarget(contact ?? device, now: now.instant)
            else { continue }
            if let contact {
                guard !context.fork.branches.contains(where: { $0.isOf(contact) }) else {
                    waiting[device, default: []].append(fork)
                    follow(target, with: incoming, fork: fork, context, now: now)
                    continue
                }
                context.fork.branches[branch].contact = contact
            }
            dropPush(of: branch, in: fork)
            counters.count(.heldDelivered)
            counters.observe(.delivery, now.date - call.receivedAt)
            log.info(
                "call released",
                [
                    .aor: .described(call.aor), .callID: .bytes(call.key.callID), .device: .number(device.rawValue),
                    .duration: .duration(now.date - call.receivedAt),
                ])
            // Of another contact it was not known before.
            if let id = context.fork.branches[branch].trace { timeline.registered(id, now: now.instant) }
            send(incoming, to: target, fork: fork, branch: branch, now: now)
        }
    }

    /// The call went to where a contact is not any more, or could not be sent: it follows on a branch of its own. The
    /// device that was woken may be another one, and goes on waiting.
    private func follow(
        _ target: ForkTarget, with incoming: IncomingRequest, fork: ForkID, _ context: ForkContext, now: Moment
    ) {
        guard !context.fork.branches.contains(where: { $0.hasReached(target.id, on: target.flow) }) else { return }
        let branch = context.fork.branches.count
        context.fork.branches.append(ForkBranch(state: .sleeping, device: target.id))
        send(incoming, to: target, fork: fork, branch: branch, now: now)
    }

    /// An ordinary contact has registered: calls that wait for devices of its user which have only been reported go there,
    /// each once, unless the contact has them already. Of several such devices it is taken for one whose push has left.
    func reportedReturned(as contact: BindingID, of aor: AddressOfRecord, now: Moment) {
        let reported = bindings.forkTargets(for: aor, now: now.instant).filter { !$0.isReachable }
        let asleep = reported.filter { isBeingPushed($0.id) }
        for device in reported.filter({ !isBeingPushed($0.id) }) + asleep {
            if !waiting.isEmpty { release(device.id, through: contact, now: now) }
            reportMissedCalls(to: device.id, of: aor, now: now)
        }
    }

    /// A call waits for it whose push the provider has not taken yet.
    private func isBeingPushed(_ device: BindingID) -> Bool {
        (waiting[device] ?? []).contains { fork in
            guard let fork = forks[fork]?.fork, let branch = fork.sleepingBranch(of: device) else { return false }
            return fork.branches[branch].push != nil
        }
    }

    func holdDeadlineReached(_ fork: ForkID, now: Moment) {
        forks[fork]?.deadline = nil
        guard let context = forks[fork], context.fork.branches.contains(where: \.isSleeping) else { return }
        counters.count(.heldTimedOut)
        if let call = context.call {
            log.info("no device came back in time", [.aor: .described(call.aor), .callID: .bytes(call.key.callID)])
        }
        for branch in context.fork.branches.indices where context.fork.branches[branch].isSleeping {
            traceEnded(branch, of: fork, .timeOver, now: now)
        }
        change(fork, now: now) { $0.deadlineReached() }
    }

    /// The device is gone from its AOR: unregistered, or its token is dead.
    func deviceRemoved(
        _ device: BindingID, of aor: AddressOfRecord, because cause: TimelineRecord.End = .signedOut, now: Moment
    ) {
        tellBucket(of: aor) { bucket, _ in bucket.deviceRemoved(device.rawValue) }
        unread.deviceRemoved(device.rawValue)
        forgetFailedReport(to: device)
        counters.count(.bindingRemoved)
        for fork in waiting.removeValue(forKey: device) ?? [] {
            guard let branch = forks[fork]?.fork.sleepingBranch(of: device) else { continue }
            counters.count(.heldDeviceGone)
            dropPush(of: branch, in: fork)
            traceEnded(branch, of: fork, cause, now: now)
            branchFailed(branch, of: fork, with: .temporarilyUnavailable, now: now)
        }
    }

    /// The caller's CANCEL: 200 at once, then whatever the fork orders (RFC 3261 section 16.10).
    func cancelReceived(_ incoming: IncomingRequest, of invite: ServerTransactionID?, now: Moment) {
        guard let invite, let fork = forkOfServer[invite] else {
            refuse(incoming, invite == nil ? .callDoesNotExist : .ok, now: now)
            return
        }
        refuse(incoming, .ok, now: now)
        if forks[fork]?.fork.branches.contains(where: \.isSleeping) == true { counters.count(.heldCancelled) }
        let reasons = incoming.request.frame.values(of: .reason).map { $0.compacted() }
        change(fork, callerReasons: reasons, now: now) { $0.cancelReceived() }
    }
}
