package import Addressing
package import Bytes
package import Calling
package import PushDelivery
package import Registration
package import Routing
import SIPGrammar
package import Timekeeping

/// Writes the timeline: one record for each device of a call, for each list of missed calls, and for each notification.
///
/// A fork branch keeps the id of its timeline record until the record has the end of the branch.
extension PushLedger {
    // MARK: Beginning

    /// Begins the timeline record of a device that gets an INVITE, a push, or both.
    ///
    /// The parameter `app` is the name of the app that gets the push, and empty if no push is needed. The parameter
    /// `earlier` is the time at which the call began, for a call from before the restart.
    package mutating func began(
        _ branch: Int, of call: ProxiedRequest, _ userCall: UserCall, _ device: DeviceID,
        _ omission: TimelineRecord.Omission?,
        _ code: PushCode? = nil, app: String, reason: String = "", since earlier: UnixTime? = nil, now: Moment
    ) {
        guard timeline.isOn, keepsRecord(from: userCall.caller, now: now.instant) else { return }
        let id = newRecordID()
        call.fork.recorded(branch, as: id)
        let date = min(earlier ?? now.date, now.date)
        var record = TimelineRecord(
            id: id, kind: .call, user: userCall.aor.user, host: userCall.aor.host, device: device,
            callRef: userCall.ref, callID: userCall.key.callID, requestedAt: date, omission: omission, code: code,
            app: app)
        if !reason.isEmpty { record.reason = reason }
        timeline.began(record, now: now.instant + (date - now.date))
    }

    /// Begins the timeline record of a phone's call to the upstream.
    package mutating func began(
        _ call: ProxiedRequest, of caller: AddressOfRecord, to peer: ByteString, _ incoming: IncomingRequest,
        since date: UnixTime,
        now: Moment
    ) {
        let phone = incoming.sender.map { Caller(user: $0) } ?? Caller(incoming.flow.remote.address)
        guard timeline.isOn, call.fork.branches.indices.contains(0), keepsRecord(from: phone, now: now.instant) else {
            return
        }
        let id = newRecordID()
        let caller = caller.compacted()
        var record = TimelineRecord(
            id: id, kind: .outgoing, user: caller.user, host: caller.host, device: .nobody, callRef: nil,
            callID: incoming.request.callID.compacted(), requestedAt: date, omission: nil)
        record.delivery = .none
        record.peer = peer[0..<min(peer.count, Self.longestPeer)].compacted()
        record.source = ByteString("\(incoming.flow.remote)")
        call.fork.recorded(0, as: id)
        timeline.began(record, now: now.instant + (date - now.date))
    }

    private static var longestPeer: Int { 256 }

    /// Begins the timeline record of a list of missed calls.
    package mutating func began(
        _ calls: [CallRef], _ code: PushCode, for device: DeviceID, of aor: AddressOfRecord, now: Moment
    ) -> RecordID? {
        guard timeline.isOn else { return nil }
        let id = newRecordID()
        let aor = aor.compacted()
        timeline.began(
            TimelineRecord(
                id: id, kind: .missedCalls, user: aor.user, host: aor.host, device: device,
                callRef: calls.first, callID: .empty, calls: calls.count, requestedAt: now.date, omission: nil,
                code: code),
            now: now.instant)
        return id
    }

    /// Records that a list of missed calls cannot be sent, because the device's push token is for calls only.
    package mutating func listNotCarried(
        _ calls: [CallRef], by token: PushToken, for device: DeviceID, of aor: AddressOfRecord, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard timeline.isOn else { return }
        let aor = aor.compacted()
        let record = TimelineRecord(
            id: newRecordID(), kind: .missedCalls, user: aor.user, host: aor.host, device: device,
            callRef: calls.first, callID: .empty, calls: calls.count, requestedAt: now.date, omission: .notCarried,
            app: token.provider.rawValue)
        actions.trace([.record(record)])
    }

    /// Begins the timeline record of a notification.
    package mutating func began(
        _ notification: PushNotification, _ code: PushCode, for device: DeviceID, of aor: AddressOfRecord,
        orderedBy orderer: ByteString = .empty, now: Moment
    ) -> RecordID? {
        guard timeline.isOn else { return nil }
        let record = record(notification, code, for: device, of: aor, orderer, nil, now: now)
        timeline.began(record, now: now.instant)
        return record.id
    }

    // MARK: Records that end immediately

    /// Records why a device does not get a notification.
    package mutating func omitted(
        _ omission: TimelineRecord.Omission, _ notification: PushNotification, _ code: PushCode,
        for device: DeviceID, of aor: AddressOfRecord, orderedBy orderer: ByteString = .empty, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard timeline.isOn else { return }
        actions.trace([.record(record(notification, code, for: device, of: aor, orderer, omission, now: now))])
    }

    private mutating func record(
        _ notification: PushNotification, _ code: PushCode, for device: DeviceID, of aor: AddressOfRecord,
        _ orderer: ByteString, _ omission: TimelineRecord.Omission?, now: Moment
    ) -> TimelineRecord {
        let aor = aor.compacted()
        var record = TimelineRecord(
            id: newRecordID(), kind: .notification, user: aor.user, host: aor.host, device: device,
            callRef: nil, callID: .empty, calls: 0, requestedAt: now.date, omission: omission, code: code)
        record.marks.isOutsideBadge = !notification.isInBadge
        record.peer = orderer
        return record
    }

    /// Whether the caller's limit allows one more timeline record (T32.5); if not, the log reports missing records.
    mutating func keepsRecord(from caller: Caller, now: Instant) -> Bool {
        if timelineShares.admits(from: caller, now: now) { return true }
        timeline.leftOut()
        timelineShares.tell(log, now: now)
        return false
    }

    // MARK: Later events

    /// Notes in a branch's timeline record that the device has sent a REGISTER; the changes of the REGISTER are not
    /// stored yet.
    package mutating func registered(_ branch: ForkBranch, now: Moment) {
        if let id = branch.record { timeline.registered(id, now: now.instant) }
    }

    /// Notes in a branch's timeline record that a message on the device's flow released the call without a REGISTER.
    package mutating func showedLife(_ branch: ForkBranch, by sign: TimelineRecord.SignOfLife) {
        if let id = branch.record { timeline.showedLife(id, by: sign) }
    }

    package mutating func invited(_ branch: ForkBranch, now: Moment) {
        if let id = branch.record { timeline.invited(id, now: now.instant) }
    }

    /// Writes the reason for the end of a branch into its timeline record, if the fork does not know the reason.
    package mutating func ended(
        _ branch: Int, of call: ProxiedRequest, _ end: TimelineRecord.End, status: UInt16? = nil, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard let id = call.fork.takeRecord(branch) else { return }
        keep(timeline.ended(id, end, status: status, now: now.instant), into: &actions)
    }

    /// Updates the timeline records of a fork's branches after a change of the fork.
    package mutating func changed(_ call: ProxiedRequest, now: Moment, into actions: inout some PushOrders) {
        for index in call.fork.branches.indices {
            guard let id = call.fork.branches[index].record else { continue }
            if call.fork.branches[index].isEnded {
                _ = call.fork.takeRecord(index)
                let (end, status) = Self.end(of: call.fork.branches[index])
                keep(timeline.ended(id, end, status: status, now: now.instant), into: &actions)
            } else if call.fork.branches[index].hasRung {
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
        case .cancelled(.endedByOperator): (.endedByOperator, nil)
        case .cancelled(.moved): (.unreachable, nil)
        }
    }

    /// Begins a new timeline record for a branch from before the restart.
    ///
    /// The parameter `wasAccepted` says whether the provider accepted the earlier push, which only the journal knows.
    package mutating func resumed(
        _ branch: Int, of call: ProxiedRequest, _ userCall: UserCall, _ device: DeviceID, _ code: PushCode?,
        app: String,
        wasAccepted: Bool, now: Moment
    ) {
        began(
            branch, of: call, userCall, device, code == nil ? .ordinaryContact : nil, code, app: code == nil ? "" : app,
            since: userCall.receivedAt, now: now)
        guard let code else { return }
        _ = unread.asked(code, .call(userCall.ref), by: device, at: userCall.receivedAt)
        guard let record = call.fork.branches[branch].record else { return }
        if wasAccepted {
            _ = timeline.noted(record, .finished(.accepted(nil)), now: now.instant)
        } else {
            timeline.lost(record)
        }
    }

    /// When the daemon stops, writes the open timeline records except records of calls, because calls continue after
    /// the restart.
    package mutating func stopped(now: Moment, into actions: inout some PushOrders) {
        let records = timeline.stopped(now: now.instant)
        if !records.isEmpty { actions.trace(records.map { .record($0) }) }
    }

    package func keep(_ record: TimelineRecord?, into actions: inout some PushOrders) {
        if let record { actions.trace([.record(record)]) }
    }
}
