package import Addressing
package import Calling
package import PushDelivery
package import Registration
package import Routing
import Telemetry
package import Timekeeping

/// Keeps the users' lists of missed calls, and sends each device its list after the device's next REGISTER (R19 to
/// R27).
extension PushLedger {
    /// Whether the device has missed calls that no accepted list has reported yet.
    package func hasMissedCalls(_ device: DeviceID, of aor: AddressOfRecord) -> Bool {
        buckets.hasMissedCalls(device, of: aor)
    }

    /// Applies an event to a user's list of missed calls, and orders the journal and the store to write the changes.
    package mutating func tellBucket(
        of aor: AddressOfRecord, into actions: inout some PushOrders,
        _ event: (inout MissedCallBucket, BucketSettings) -> [BucketChange]
    ) {
        let changes = buckets.change(aor, event)
        guard !changes.isEmpty else { return }
        actions.missedCallsChanged(changes, of: aor)
    }

    /// Updates a user's list of missed calls after a call's state has changed (R20, R21, A21).
    package mutating func tellBucket(of call: ProxiedRequest, into actions: inout some PushOrders) {
        guard let userCall = call.userCall, let news = call.takeBucketNews() else { return }
        tellBucket(of: userCall.aor, into: &actions) { bucket, _ in
            guard case .knowing(let isOver) = news else { return bucket.callAnswered(userCall.ref) }
            var changes: [BucketChange] = []
            for branch in call.fork.branches where branch.deviceKnows {
                if let device = branch.device { changes += bucket.deviceReached(userCall.ref, device) }
            }
            return isOver ? changes + bucket.callEnded(userCall.ref) : changes
        }
    }

    /// Adds a call to the missed calls of the given devices. A device's entry is removed when the device knows the
    /// call.
    ///
    /// While a call is active, its entry is only in the journal, and not in the store.
    package mutating func callOffered(
        _ userCall: UserCall, from caller: CallerIdentity, at date: UnixTime, to devices: [DeviceID],
        into actions: inout some PushOrders
    ) {
        tellBucket(of: userCall.aor, into: &actions) { bucket, settings in
            bucket.callOffered(
                userCall.ref, caller: caller.remoteURI, by: userCall.caller, at: date, devices: devices,
                settings: settings)
        }
    }

    /// Restores the missed calls of a call from before the restart.
    ///
    /// The missed call counts toward the limits of the caller `broughtBy`. The parameter `devices` contains the devices
    /// that can get lists of missed calls.
    package mutating func resumed(
        _ stored: StoredCall, _ userCall: StoredUserCall, from caller: CallerIdentity, by broughtBy: Caller,
        devices: Set<DeviceID>,
        into actions: inout some PushOrders
    ) {
        let branches = stored.branches.filter { $0.device.map(devices.contains) == true }
        tellBucket(of: userCall.aor, into: &actions) { bucket, settings in
            var changes = bucket.callResumed(
                userCall.callRef, caller: caller.remoteURI, by: broughtBy, at: stored.receivedAt,
                devices: branches.compactMap(\.device),
                settings: settings)
            for branch in branches where branch.deviceKnows {
                if let device = branch.device { changes += bucket.deviceReached(userCall.callRef, device) }
            }
            return changes
        }
    }

    /// Notes the end of a call that began before the restart and cannot be resumed.
    package mutating func ended(_ userCall: StoredUserCall, into actions: inout some PushOrders) {
        tellBucket(of: userCall.aor, into: &actions) { bucket, _ in bucket.callEnded(userCall.callRef) }
    }

    /// Notes that a device knows an ended call, so that the device's list of missed calls omits the call.
    package mutating func deviceReached(_ device: DeviceID, by userCall: UserCall, into actions: inout some PushOrders)
    {
        tellBucket(of: userCall.aor, into: &actions) { bucket, _ in bucket.deviceReached(userCall.ref, device) }
    }

    // MARK: The list for a device

    /// Sends a device that has registered again its list of missed calls, in one push (R22 to R27).
    package mutating func reportMissedCalls(
        to target: ForkTarget, _ token: PushToken, of aor: AddressOfRecord, life: Duration, now: Moment,
        into actions: inout some PushOrders
    ) {
        var missed: (calls: [MissedCall], refs: [CallRef]) = ([], [])
        tellBucket(of: aor, into: &actions) { bucket, settings in
            let found = bucket.deviceReturned(target.id, settings: settings, now: now.date)
            missed = (found.calls, found.refs)
            return found.changes
        }
        guard !missed.calls.isEmpty else { return }
        log.info(
            "the daemon sends a push with the list of missed calls to a phone",
            [.aor: .described(aor), .count: .number(missed.calls.count)])
        let code = newCode()
        let record = began(missed.refs, code, for: target.id, of: aor, now: now)
        let badge = unread.listAsked(code, of: missed.refs, by: target.id, at: now.date)
        send(
            AskedPush(.missedCalls(missed.refs), code, device: target.id, aor: aor, record: record),
            PushRequest(
                code: code, device: target.id, token: token, message: .missedCalls(missed.calls), badge: badge,
                deadline: now.date + life),
            now: now, into: &actions)
    }

    /// Reports in the log and the timeline, once for each call, that a device's push token cannot be used for lists of
    /// missed calls (A28). The daemon keeps these missed calls until they expire, because the device may register with
    /// another token.
    ///
    /// - Returns: the number of newly reported calls.
    package mutating func listNotCarried(
        by target: ForkTarget, _ token: PushToken, of aor: AddressOfRecord, now: Moment,
        into actions: inout some PushOrders
    ) -> Int {
        var calls: [CallRef] = []
        tellBucket(of: aor, into: &actions) { bucket, settings in
            let found = bucket.listNotCarried(by: target.id, settings: settings, now: now.date)
            calls = found.refs
            return found.changes
        }
        guard !calls.isEmpty else { return 0 }
        log.notice(
            "the daemon cannot notify a phone of missed calls, because the phone's push token is for calls only",
            [
                .aor: .described(aor), .device: .described(target.id), .count: .number(calls.count),
                .provider: .text(token.provider.rawValue),
            ])
        listNotCarried(calls, by: token, for: target.id, of: aor, now: now, into: &actions)
        return calls.count
    }

    /// Schedules a device's list of missed calls for `instant`, because the device first gets the INVITE of an ended
    /// call.
    package mutating func listDue(to device: DeviceID, of aor: AddressOfRecord, at instant: Instant) {
        _ = timers.schedule(.report(device, aor), at: instant)
    }

    /// Handles the final result of the push with a list of missed calls.
    package mutating func reportFinished(
        _ refs: [CallRef], to device: DeviceID, of aor: AddressOfRecord, _ outcome: PushOutcome, now: Moment,
        into actions: inout some PushOrders
    ) {
        switch outcome {
        case .accepted, .acceptedWithNewToken: forgetFailedReport(to: device)
        case .retry, .renewCredential, .credentialsRefused, .noConnection: retryReport(to: device, of: aor, now: now)
        // If the provider refuses the list, the missed calls wait for the device's next REGISTER, because a second push
        // would fail too.
        case .tokenDead, .foreignToken, .payloadRefused, .noSuitableToken: forgetFailedReport(to: device)
        }
        tellBucket(of: aor, into: &actions) { bucket, _ in
            if outcome.isAccepted { return bucket.reportAccepted(refs, by: device) }
            bucket.reportFailed(refs, by: device)
            return []
        }
    }

    /// Schedules a retry if the push provider did not accept a list of missed calls. Each pause is longer than the
    /// pause before.
    ///
    /// The retries end when the push provider accepts the list, or when the missed calls are too old.
    private mutating func retryReport(to device: DeviceID, of aor: AddressOfRecord, now: Moment) {
        let count = (forgetFailedReport(to: device)?.count ?? 0) + 1
        let pauses: [Duration] = [.seconds(60), .seconds(300), .seconds(900), .seconds(3600)]
        let pause = pauses[min(count, pauses.count) - 1]
        // The pause has a random factor from 3/4 to 5/4, so that lists that failed together are retried at different
        // times.
        let chance = Double(random() >> 11) / Double(1 << 53)
        scheduleReport(to: device, of: aor, after: count, at: now.instant + pause * (0.75 + 0.5 * chance))
    }

    private mutating func scheduleReport(
        to device: DeviceID, of aor: AddressOfRecord, after failures: Int, at instant: Instant
    ) {
        let timer = timers.schedule(.report(device, aor), at: instant)
        failedReports[device] = FailedReport(count: failures, timer: timer)
    }

    /// Cancels the next retry of a device's list of missed calls, because the list was sent or will not be sent.
    @discardableResult
    mutating func forgetFailedReport(to device: DeviceID) -> FailedReport? {
        guard let report = failedReports.removeValue(forKey: device) else { return nil }
        timers.cancel(report.timer)
        return report
    }

    // MARK: Age

    /// Drops missed calls that are too old, also of users who neither register nor are called.
    package mutating func sweep(now: Moment, into actions: inout some PushOrders) {
        for user in buckets.usersWithOld(now: now.date) {
            tellBucket(of: user, into: &actions) { bucket, settings in bucket.dropOld(settings, now: now.date) }
        }
        _ = timers.schedule(.sweep, at: now.instant + Self.sweepPause)
    }

    private static var sweepPause: Duration { .seconds(3600) }

    // MARK: The start

    /// Schedules lists of missed calls that were not sent before the restart, for devices that registered after the
    /// calls.
    package mutating func restored(
        now: Moment, into actions: inout some PushOrders, isBack: (DeviceID, UnixTime) -> Bool
    ) {
        sweep(now: now, into: &actions)
        sendOwed(now: now, isBack: isBack)
    }

    /// Schedules the lists for devices that registered after their missed calls. The daemon sends all these lists
    /// within half a minute.
    package mutating func sendOwed(now: Moment, isBack: (DeviceID, UnixTime) -> Bool) {
        for owed in buckets.owed(isBack: isBack) where failedReports[owed.device] == nil {
            let delay = Duration.milliseconds(Int64(random() % 30_000))
            scheduleReport(to: owed.device, of: owed.aor, after: 0, at: now.instant + delay)
        }
    }

    // MARK: Devices and operators

    /// Removes a device from the missed calls that wait for the device, and cancels the retry of its list.
    package mutating func deviceRemoved(
        _ device: DeviceID, of aor: AddressOfRecord, into actions: inout some PushOrders
    ) {
        tellBucket(of: aor, into: &actions) { bucket, _ in bucket.deviceRemoved(device) }
        unread.deviceRemoved(device)
        forgetFailedReport(to: device)
    }

    /// Moves the missed calls of a removed device to other devices of the user.
    package mutating func passOn(
        from device: DeviceID, to successors: [DeviceID], of aor: AddressOfRecord, into actions: inout some PushOrders
    ) {
        tellBucket(of: aor, into: &actions) { bucket, _ in bucket.deviceDied(device, successors: successors) }
    }

    /// Removes a user's missed calls that an operator has deleted from the store.
    package mutating func forget(
        _ calls: [BucketEntry], of aor: AddressOfRecord, now: Moment, into actions: inout some PushOrders
    ) {
        tellBucket(of: aor, into: &actions) { bucket, _ in bucket.callsForgotten(calls) }
        for call in calls {
            for device in call.devices + call.told {
                callIsNoNews(call.callRef, for: device, now: now, into: &actions)
            }
        }
    }
}
