import Addressing
import Bytes
package import PushDelivery
package import Registration
import Telemetry
package import Timekeeping

/// The buckets of missed calls: what is kept for whom, and the list that a returning device gets (R19 to R27).
extension ProxyEngine {
    /// What the fork's state means for the user's missed calls (R20, R21, A21).
    func tellBucket(of context: ForkContext) {
        guard let call = context.call, !context.wasAnswered else { return }
        let fork = context.fork
        if fork.isAnswered {
            context.wasAnswered = true
            tellBucket(of: call.aor) { bucket, _ in bucket.callAnswered(call.ref) }
            return
        }
        tellBucket(of: call.aor) { bucket, _ in
            var changes: [BucketChange] = []
            for branch in fork.branches where branch.deviceKnows {
                if let device = branch.device { changes += bucket.deviceReached(call.ref, device) }
            }
            return fork.phase == .ended ? changes + bucket.callEnded(call.ref) : changes
        }
    }

    /// Lets something happen to a user's bucket; the rows are written soon.
    func tellBucket(of aor: AddressOfRecord, _ event: (inout PushBucket, BucketSettings) -> [BucketChange]) {
        let changes = buckets.change(aor, event)
        if !changes.isEmpty { act(.record(changes)) }
    }

    // MARK: Telling a device

    /// The list of calls a returning device missed, in one push (R22-R27).
    func reportMissedCalls(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        guard buckets.hasMissedCalls(device, of: aor), let target = bindings.forkTarget(device, now: now.instant),
            let token = target.pushToken
        else { return }
        var missed: (calls: [MissedCall], refs: [CallRef]) = ([], [])
        tellBucket(of: aor) { bucket, settings in
            let found = bucket.deviceReturned(device, settings: settings, now: now.date)
            missed = (found.calls, found.refs)
            return found.changes
        }
        guard !missed.calls.isEmpty else { return }
        log.info("missed calls reported", [.aor: .described(aor), .count: .number(missed.calls.count)])
        let id = PushID(rawValue: nextNumber())
        let code = newPushCode()
        pushes[id] = .missedCalls(code, device: device, aor: aor, missed.refs)
        traceBegan(id, code, missed.refs, device, of: aor, now: now)
        let badge = unread.listAsked(code, of: missed.refs, by: device, at: now.date)
        act(
            .push(
                PushRequest(
                    id: id, code: code, device: device, token: token,
                    message: .missedCalls(missed.calls), badge: badge,
                    deadline: now.date + settings.missedCallsLife)))
    }

    func missedCallsPushFinished(
        _ device: DeviceID, aor: AddressOfRecord, _ refs: [CallRef], _ outcome: PushOutcome, now: Moment
    ) {
        if noteToken(outcome, of: device, aor: aor, now: now) { return }
        switch outcome {
        case .accepted, .acceptedWithNewToken:
            counters.count(.missedCallReported, by: UInt64(refs.count))
            forgetFailedReport(to: device)
        case .retry, .renewCredential, .credentialsRefused, .noConnection:
            retryReport(to: device, of: aor, now: now)
        // Trying again would end the same way. The calls wait for the device's next REGISTER.
        case .tokenDead, .payloadRefused, .noSuitableToken:
            forgetFailedReport(to: device)
        }
        tellBucket(of: aor) { bucket, _ in
            if outcome.isAccepted { return bucket.reportAccepted(refs, by: device) }
            bucket.reportFailed(refs, by: device)
            return []
        }
    }

    /// A list was not taken: once more later, and later still, until it is taken or the calls are too old.
    private func retryReport(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        let count = (forgetFailedReport(to: device)?.count ?? 0) + 1
        let pauses: [Duration] = [.seconds(60), .seconds(300), .seconds(900), .seconds(3600)]
        let pause = pauses[min(count, pauses.count) - 1]
        // From 3/4 to 5/4: those that failed together need not come together.
        let chance = Double(functions.random() >> 11) / Double(1 << 53)
        let timer = timers.schedule(.reportDue(device, aor), at: now.instant + pause * (0.75 + 0.5 * chance))
        failedReports[device] = FailedReport(count: count, timer: timer)
    }

    func reportDue(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        reportMissedCalls(to: device, of: aor, now: now)
    }

    /// No more tries of its own: it succeeded, or the device is gone.
    @discardableResult
    func forgetFailedReport(to device: DeviceID) -> FailedReport? {
        guard let report = failedReports.removeValue(forKey: device) else { return nil }
        timers.cancel(report.timer)
        return report
    }

    /// After ``restore(_:now:)`` of all bindings: lists that were owed when the program ended, because their devices have
    /// been here since the calls, are sent soon.
    package func restored(now: Moment) {
        for owed in buckets.owed(isBack: { device, date in
            bindings.forkTarget(device, now: now.instant).map { $0.registeredAt > date } ?? false
        }) where failedReports[owed.device] == nil {
            let delay = Duration.milliseconds(Int64(functions.random() % 30_000))
            let timer = timers.schedule(.reportDue(owed.device, owed.aor), at: now.instant + delay)
            failedReports[owed.device] = FailedReport(count: 0, timer: timer)
        }
    }

    // MARK: Changes from elsewhere

    /// Calls that a dead device will not hear of go to the user's other devices.
    func passOnMissedCalls(of device: DeviceID, aor: AddressOfRecord, now: Moment) {
        guard buckets.unread(device, of: aor) > 0 else { return }
        let heirs = bindings.forkTargets(for: aor, now: now.instant)
            .filter { $0.pushToken != nil && $0.id != device }.map(\.id)
        tellBucket(of: aor) { bucket, _ in bucket.deviceDied(device, heirs: heirs) }
    }

    /// An operator had a user's missed calls forgotten; calls that are being offered never are. Their rows are deleted by
    /// whoever calls this, before the call.
    ///
    /// - Parameters:
    ///   - calls: entries as they were when the rows were told to go.
    ///   - aor: the user.
    ///   - now: both clocks.
    package func missedCallsForgotten(_ calls: [BucketEntry], of aor: AddressOfRecord, now: Moment) {
        tellBucket(of: aor) { bucket, _ in bucket.callsForgotten(calls) }
        for call in calls {
            for device in call.devices + call.told {
                callSettled(call.callRef, for: device, now: now)
            }
        }
    }
}
