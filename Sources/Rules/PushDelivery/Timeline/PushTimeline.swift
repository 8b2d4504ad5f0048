package import Addressing
import Collections
package import Timekeeping

/// The open records of the timeline. The timeline opens a record when a push is requested or omitted, and completes the
/// record when no more steps can follow.
///
/// ``PushTimeline`` does no input or output: its methods take steps and return complete records. A step for an unknown
/// timeline record is ignored.
package struct PushTimeline: ~Copyable {
    private var entries = PlacedTable<RecordID, OpenRecord?>(empty: nil)
    /// The open records by push code and device.
    private var receipts = SlotIndex()
    /// The maximum number of open records; above the maximum, new records are not kept, and 0 switches the timeline
    /// off.
    private let limit: Int
    /// The number of records that were not kept because a limit was reached.
    package private(set) var omitted: UInt64 = 0

    package init(limit: Int) { self.limit = limit }

    package var isOn: Bool { limit > 0 }

    /// Counts a record that is not kept, because the SIP caller already has too many records.
    package mutating func leftOut() { omitted += 1 }

    package var count: Int { entries.count }

    /// The open records for which `isAsked` returns true, oldest first.
    package func underWay(_ isAsked: (TimelineRecord) -> Bool) -> [TimelineRecord] {
        entries.all.compactMap(\.value?.record).filter(isAsked).sorted { $0.id.rawValue < $1.id.rawValue }
    }

    // MARK: What happened

    package mutating func began(_ record: consuming TimelineRecord, now: Instant) {
        guard entries.count < limit else {
            omitted += 1
            return
        }
        record.began = now
        let place = entries.madePlace(of: record.id)
        if let code = record.code { receipts.insert(hash: Self.hash(code, record.device), slot: place) }
        entries[place] = OpenRecord(record: record)
    }

    /// Adds an app's report about a push to the push's record; returns false if the record is not open.
    package mutating func marked(_ code: PushCode, of device: DeviceID, _ mark: PushMark, at date: UnixTime) -> Bool {
        let place = receipts.find(hash: Self.hash(code, device)) {
            entries[$0]?.record.code == code && entries[$0]?.record.device == device
        }
        guard let place else { return false }
        entries[place]?.record.marks.set(mark, at: date)
        return true
    }

    /// Adds a step of a push to the push's record, and returns the record if it is now complete.
    package mutating func noted(_ id: RecordID, _ step: PushStep, now: Instant) -> TimelineRecord? {
        switch step {
        case .queued(let app):
            entry(id)?.record.app = app
            return nil
        case .refused(let refusal):
            entry(id)?.refused(refusal)
            return nil
        case .sent:
            entry(id)?.sent(now: now)
            return nil
        case .answered(let outcome, let status, let problem):
            entry(id)?.answered(outcome, status, problem, now: now)
            return nil
        case .finished(let outcome):
            guard let entry = entry(id) else { return nil }
            entry.finished(outcome)
            return taken(entry)
        case .withdrawn:
            guard let entry = entry(id) else { return nil }
            entry.record.delivery = .withdrawn
            return taken(entry)
        }
    }

    /// Notes that the result of the push is unknown, because the daemon stopped before the provider answered.
    package mutating func lost(_ id: RecordID) { entry(id)?.record.delivery = .unknown }

    /// Notes a REGISTER of the phone in the timeline record of its push. A record keeps only the phone's first
    /// REGISTER, and only if the REGISTER came before the INVITE and before any other message of the phone. Later
    /// REGISTERs are ignored, because the push has not caused them.
    package mutating func registered(_ id: RecordID, now: Instant) { entry(id)?.registered(now: now) }

    /// Notes that a message on the phone's registered flow, other than a REGISTER, released the call.
    package mutating func showedLife(_ id: RecordID, by sign: TimelineRecord.SignOfLife) {
        entry(id)?.showedLife(by: sign)
    }

    /// Notes that the daemon sent the INVITE to the phone.
    package mutating func invited(_ id: RecordID, now: Instant) { entry(id)?.invited(now: now) }

    /// Notes that the phone responded to the INVITE with 180 or a higher status. A phone's response from before the
    /// record's INVITE is ignored.
    package mutating func rang(_ id: RecordID, now: Instant) { entry(id)?.rang(now: now) }

    /// Notes the end of a call in one phone's timeline record, and returns the record if it is now complete.
    package mutating func ended(
        _ id: RecordID, _ end: TimelineRecord.End, status: UInt16? = nil, now: Instant
    ) -> TimelineRecord? {
        guard let entry = entry(id) else { return nil }
        entry.ended(end, status, now: now)
        return taken(entry)
    }

    /// Completes the open records in their present state, because the daemon stops. Records of calls stay open, because
    /// the daemon continues the calls after the restart.
    package mutating func stopped(now: Instant) -> [TimelineRecord] {
        let ending = entries.all.compactMap(\.value).filter { entry in
            entry.record.kind != .call && entry.record.kind != .outgoing
        }
        let records = ending.map { entry in
            if entry.record.delivery == .underWay { entry.record.delivery = .withdrawn }
            entry.ended(.stopped, nil, now: now)
            return entry.record
        }
        entries = PlacedTable(empty: nil)
        receipts = SlotIndex()
        return records.sorted { $0.id.rawValue < $1.id.rawValue }
    }

    private func entry(_ id: RecordID) -> OpenRecord? { entries[id] ?? nil }

    /// A hash of a push's code and a device; several devices can get pushes with the same code.
    private static func hash(_ code: PushCode, _ device: DeviceID) -> UInt32 {
        code.hash ^ UInt32(truncatingIfNeeded: device._rawHashValue(seed: 0))
    }

    /// Removes and returns the record if the record is complete; otherwise returns `nil`.
    private mutating func taken(_ entry: OpenRecord) -> TimelineRecord? {
        let record = entry.record
        guard record.isComplete, let place = entries.place(of: record.id) else { return nil }
        entries.remove(at: place)
        if let code = record.code { receipts.remove(hash: Self.hash(code, record.device), slot: place) }
        return record
    }
}

/// An open record of the timeline. ``OpenRecord`` is a class, so that a step changes a few bytes and does not move the
/// whole record.
private final class OpenRecord {
    var record: TimelineRecord

    private func offset(_ now: Instant) -> StepTime {
        let (time, overflow) = now.nanoseconds.subtractingReportingOverflow(record.began.nanoseconds)
        return StepTime(nanoseconds: overflow ? .max : time)
    }

    init(record: consuming TimelineRecord) { self.record = record }

    func refused(_ refusal: PushRefusal) {
        switch refusal {
        case .queueFull: record.answer = .queueFull
        case .noApp: record.answer = .noApp
        case .paused: record.answer = .paused
        }
    }

    func sent(now: Instant) {
        record.tries += 1
        if record.steps.sentAt == nil { record.steps.sentAt = offset(now) }
    }

    func answered(_ outcome: PushOutcome, _ status: Int?, _ problem: String?, now: Instant) {
        record.steps.answeredAt = offset(now)
        record.status = status
        record.noteAnswer(outcome)
        if let problem {
            record.reason = problem
        } else if record.answer == .failed, let status {
            record.reason = "\(status)"
        }
    }

    /// Records the outcome of the push: the provider's last answer, or the reason why no request was sent.
    func finished(_ outcome: PushOutcome) {
        record.delivery = .finished
        switch outcome {
        // No time or no further try is left, so the provider's last answer is the result.
        case .retry: record.answer = record.answer ?? .failed
        case .accepted, .acceptedWithNewToken, .tokenDead, .renewCredential, .credentialsRefused, .foreignToken,
            .noConnection,
            .payloadRefused,
            .noSuitableToken:
            record.noteAnswer(outcome)
        }
    }

    func registered(now: Instant) {
        guard record.steps.invitedAt == nil else { return }
        if record.steps.registeredAt == nil, record.sign == nil { record.steps.registeredAt = offset(now) }
    }

    func showedLife(by sign: TimelineRecord.SignOfLife) {
        // A message of the phone after the INVITE did not release the call.
        if record.sign == nil, record.steps.invitedAt == nil { record.sign = sign }
    }

    func invited(now: Instant) {
        if record.steps.invitedAt == nil { record.steps.invitedAt = offset(now) }
    }

    func rang(now: Instant) {
        if record.steps.rangAt == nil, record.steps.invitedAt != nil { record.steps.rangAt = offset(now) }
    }

    /// Records how the call ended for one phone, unless an end is already recorded.
    func ended(_ end: TimelineRecord.End, _ status: UInt16?, now: Instant) {
        guard record.end == nil else { return }
        record.end = end
        record.endStatus = status
        record.steps.endedAt = offset(now)
    }
}
