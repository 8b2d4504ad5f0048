import Addressing
import Bytes
package import PushDelivery
import Registration
import SIPGrammar
package import Timekeeping

/// The timeline: one record for each device of each call, and for each list of missed calls.
///
/// A branch carries the number of its record until the record knows how the branch ended.
extension ProxyEngine {
    /// A device is to be called, woken or not.
    ///
    /// - Returns: the number of the record, which its push takes as well.
    @discardableResult
    func traceBegan(
        _ call: OfferedCall, _ target: ForkTarget, _ omission: TimelineRecord.Omission?, _ code: PushCode? = nil,
        fork: ForkID, branch: Int, now: Moment
    ) -> PushID {
        let id = PushID(rawValue: nextNumber())
        guard timeline.isOn else { return id }
        var omission = omission
        var app = ""
        if omission == .ordinaryContact, let provider = bindings.switchedOffProvider(of: target.id) {
            omission = .providerOff
            app = provider.rawValue
        } else if let provider = target.pushToken?.provider {
            app = provider.rawValue
        }
        forks[fork]?.fork.branches[branch].trace = id
        let isFirst = timeline.began(
            TimelineRecord(
                id: id, kind: .call, user: call.aor.user, host: call.aor.host, device: target.id,
                callRef: call.ref, callID: call.key.callID, requestedAt: now.date, omission: omission, code: code,
                app: app),
            now: now.instant)
        if isFirst { _ = timers.schedule(.openingsDue, at: now.instant + Self.openingsDelay) }
        return id
    }

    /// Calls that have not been over at once are written down with others: a crash shall not make them vanish.
    func openingsDue() {
        let records = timeline.openings()
        if !records.isEmpty { act(.trace(records.map { .callOpened($0) })) }
    }

    private static let openingsDelay: Duration = .milliseconds(100)

    /// A list of missed calls is to be sent.
    func traceBegan(
        _ id: PushID, _ code: PushCode, _ calls: [CallRef], _ device: DeviceID, of aor: AddressOfRecord, now: Moment
    ) {
        guard timeline.isOn else { return }
        let aor = aor.compacted()
        timeline.began(
            TimelineRecord(
                id: id, kind: .missedCalls, user: aor.user, host: aor.host, device: device,
                callRef: calls.first, callID: .empty, calls: calls.count, requestedAt: now.date, omission: nil,
                code: code),
            now: now.instant)
    }

    /// A notification is to be sent.
    func traceBegan(
        _ id: PushID, _ code: PushCode, _ notification: PushNotification, _ device: DeviceID, of aor: AddressOfRecord,
        now: Moment
    ) {
        guard timeline.isOn else { return }
        timeline.began(record(id, code, notification, device, of: aor, nil, now: now), now: now.instant)
    }

    /// A device gets none.
    func traceOmitted(
        _ omission: TimelineRecord.Omission, _ code: PushCode, _ notification: PushNotification,
        _ target: ForkTarget, of aor: AddressOfRecord, now: Moment
    ) {
        guard timeline.isOn else { return }
        let id = PushID(rawValue: nextNumber())
        act(.trace([.record(record(id, code, notification, target.id, of: aor, omission, now: now))]))
    }

    private func record(
        _ id: PushID, _ code: PushCode, _ notification: PushNotification, _ device: DeviceID,
        of aor: AddressOfRecord, _ omission: TimelineRecord.Omission?, now: Moment
    ) -> TimelineRecord {
        let aor = aor.compacted()
        var record = TimelineRecord(
            id: id, kind: .notification, user: aor.user, host: aor.host, device: device, callRef: nil,
            callID: .empty, calls: 0, requestedAt: now.date, omission: omission, code: code)
        record.marks.isOutsideBadge = !notification.isInBadge
        return record
    }

    /// A call that is refused at once. Anybody can make such calls, so not all get a record.
    func traceRefused(
        _ incoming: IncomingRequest, to aor: AddressOfRecord, _ omission: TimelineRecord.Omission, _ status: Status,
        now: Moment
    ) {
        guard timeline.isOn, incoming.request.method == .invite, strayLimit.admit(true, now: now.instant) else {
            return
        }
        let aor = aor.compacted()
        var record = TimelineRecord(
            id: PushID(rawValue: nextNumber()), kind: .call, user: aor.user, host: aor.host, device: .nobody,
            callRef: nil,
            callID: incoming.request.callID.compacted(), requestedAt: now.date, omission: omission)
        record.end = .notOffered
        record.endStatus = status.code
        record.steps.ended = 0
        act(.trace([.record(record)]))
    }

    /// REGISTERs came from these devices; what they change is not written yet.
    func traceRegistered(_ devices: [DeviceID], now: Moment) {
        for device in devices {
            forEachWaitingTrace(of: device) { timeline.registered($0, now: now.instant) }
        }
    }

    /// The device shows life where it registered: that, and no REGISTER, lets out the calls that wait for it.
    func traceLife(_ device: DeviceID, by sign: TimelineRecord.SignOfLife) {
        forEachWaitingTrace(of: device) { timeline.showedLife($0, by: sign) }
    }

    /// The records of calls that wait for it and have not been sent to it yet.
    private func forEachWaitingTrace(of device: DeviceID, _ body: (PushID) -> Void) {
        guard timeline.isOn else { return }
        for fork in called.forks(of: device) {
            guard let fork = forks[fork]?.fork, let branch = fork.sleepingBranch(of: device),
                !fork.branches[branch].hasMoved, let id = fork.branches[branch].trace
            else { continue }
            body(id)
        }
    }

    func traceInvited(_ branch: Int, of fork: ForkID, now: Moment) {
        if let id = forks[fork]?.fork.branches[branch].trace { timeline.invited(id, now: now.instant) }
    }

    /// A branch is about to end for a reason that the fork does not know.
    func traceEnded(_ branch: Int, of fork: ForkID, _ end: TimelineRecord.End, now: Moment) {
        guard let id = forks[fork]?.fork.branches[branch].trace else { return }
        forks[fork]?.fork.branches[branch].trace = nil
        keep(timeline.ended(id, end, now: now.instant))
    }

    /// After something happened to a fork: what it means for the records of its branches.
    func traceBranches(of context: ForkContext, now: Moment) {
        for index in context.fork.branches.indices {
            guard let id = context.fork.branches[index].trace else { continue }
            let branch = context.fork.branches[index]
            if branch.isEnded {
                context.fork.branches[index].trace = nil
                let (end, status) = Self.end(of: branch)
                keep(timeline.ended(id, end, status: status, now: now.instant))
            } else if branch.deviceKnows {
                timeline.rang(id, now: now.instant)
            }
        }
    }

    private static func end(of branch: ForkBranch) -> (TimelineRecord.End, UInt16?) {
        switch branch.end {
        case .succeeded: (.answered, nil)
        case .failed(let status): (.refused, status.code)
        case .gaveUp(.requestTimeout), .silent, nil: (.noAnswer, nil)
        case .gaveUp: (.unreachable, nil)
        case .cancelled(.answeredElsewhere): (.answeredElsewhere, nil)
        case .cancelled(.declinedElsewhere): (.declinedElsewhere, nil)
        case .cancelled(.callerCancelled): (.callerGaveUp, nil)
        case .cancelled(.dismissed): (.dismissed, nil)
        case .cancelled(.moved): (.unreachable, nil)
        }
    }

    /// A step of a push on its way to the provider.
    package func pushNoted(_ id: PushID, _ step: PushStep, now: Moment) {
        notePushLeft(id, step)
        guard timeline.isOn else { return }
        keep(timeline.noted(id, step, now: now.instant))
    }

    /// The daemon stops: what is under way is written down as it stands.
    package func stopped(now: Moment) {
        let records = timeline.stopped(now: now.instant)
        if !records.isEmpty { act(.trace(records.map { .record($0) })) }
    }

    private func keep(_ record: TimelineRecord?) {
        if let record { act(.trace([.record(record)])) }
    }
}
