import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

extension ProxyEngine {
    /// Starts the clock of a call that waits for a device: the ring timeout, lowered by the INVITE's own Expires, goes on
    /// from the INVITE. A phone that is lost after it has a little time to come back.
    func armHold(of fork: ForkID, _ context: ForkContext, now: Moment) {
        guard context.deadline == nil, let call = context.call else { return }
        let end = call.holdUntil > now.instant ? call.holdUntil : now.instant + Self.returnTime
        context.deadline = timers.schedule(.holdDeadline(fork), at: end)
    }

    private static let returnTime: Duration = .seconds(10)

    func holdTime(of request: SIPRequest) -> Duration {
        guard let expires = request.expires else { return settings.call.ringTimeout }
        return min(settings.call.ringTimeout, .seconds(Int64(expires)))
    }

    /// Sends every INVITE that waits for a device that was only reported to a contact of its user, unless the call has gone
    /// there already.
    private func release(_ device: DeviceID, through contact: DeviceID, now: Moment) {
        for fork in called.forks(of: device) {
            guard let context = forks[fork], context.fork.acceptsBranches,
                let branch = context.fork.sleepingBranch(of: device),
                let target = bindings.forkTarget(contact, now: now.instant)
            else { continue }
            if context.fork.branches.contains(where: { $0.isOf(contact) }) {
                follow(target, fork: fork, context, now: now)
            } else {
                context.fork.branches[branch].contact = contact
                called.add(fork, to: contact)
                deliver(to: target, fork: fork, branch: branch, context, now: now)
            }
        }
    }

    /// The call went to where a contact is not any more, or could not be sent: it follows on a branch of its own. The
    /// device that was woken may be another one, and goes on waiting.
    private func follow(_ target: ForkTarget, fork: ForkID, _ context: ForkContext, now: Moment) {
        guard !context.fork.branches.contains(where: { $0.hasReached(target.id, by: target.way) }),
            let incoming = revive(context)
        else { return }
        let branch = context.fork.branches.count
        context.fork.branches.append(ForkBranch(state: .sleeping, device: target.id))
        list(branch, of: fork, context)
        send(incoming, to: target, fork: fork, branch: branch, now: now)
    }

    /// An ordinary contact has registered: calls that wait for devices of its user which have only been reported go there,
    /// each once, unless the contact has them already. Of several such devices it is taken for one whose push has left.
    func reportedReturned(as contact: DeviceID, of aor: AddressOfRecord, now: Moment) {
        // A REGISTER of many contacts asks this for each, and hardly anybody has one.
        guard bindings.hasReportedDevice(aor) else { return }
        let reported = bindings.forkTargets(for: aor, now: now.instant).filter { !$0.isReachable }
        let asleep = reported.filter { isBeingPushed($0.id) }
        for device in reported.filter({ !isBeingPushed($0.id) }) + asleep {
            if !called.isEmpty { release(device.id, through: contact, now: now) }
            reportMissedCalls(to: device.id, of: aor, now: now)
        }
    }

    /// A call waits for it whose push the provider has not taken yet.
    private func isBeingPushed(_ device: DeviceID) -> Bool {
        called.forks(of: device).contains { fork in
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
        for branch in context.fork.branches.indices
        where context.fork.branches[branch].isSleeping && !context.fork.branches[branch].hasMoved {
            traceEnded(branch, of: fork, .timeOver, now: now)
        }
        change(fork, now: now) { $0.deadlineReached() }
    }

    /// The device is gone from its AOR: unregistered, or its token is dead.
    func deviceRemoved(
        _ device: DeviceID, of aor: AddressOfRecord, because cause: TimelineRecord.End = .signedOut, now: Moment
    ) {
        tellBucket(of: aor) { bucket, _ in bucket.deviceRemoved(device) }
        unread.deviceRemoved(device)
        forgetFailedReport(to: device)
        counters.count(.bindingRemoved)
        for fork in called.forks(of: device) {
            guard let branch = forks[fork]?.fork.sleepingBranch(of: device) else { continue }
            counters.count(.heldDeviceGone)
            dropPush(of: branch, in: fork)
            traceEnded(branch, of: fork, cause, now: now)
            branchFailed(branch, of: fork, with: .temporarilyUnavailable, now: now)
        }
    }

    // MARK: Finding calls by their devices

    func list(_ branch: Int, of fork: ForkID, _ context: ForkContext) {
        guard let device = context.fork.branches[branch].device else { return }
        context.fork.branches[branch].isListed = true
        called.add(fork, to: device)
    }

    /// Branches that are over are not looked for any more, and need no push.
    func unlistEnded(_ fork: ForkID, _ context: ForkContext) {
        guard context.call != nil else { return }
        for index in context.fork.branches.indices where context.fork.branches[index].isEnded {
            dropPush(of: index, in: fork)
            guard context.fork.branches[index].isListed else { continue }
            context.fork.branches[index].isListed = false
            let branch = context.fork.branches[index]
            for device in [branch.device, branch.contact].compactMap(\.self)
            where !context.fork.branches.contains(where: { $0.isOf(device) && !$0.isEnded }) {
                called.remove(fork, of: device)
            }
        }
    }
}
