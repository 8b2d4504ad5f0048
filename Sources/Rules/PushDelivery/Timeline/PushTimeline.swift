package import Addressing
import Collections
package import Timekeeping

/// The open records of the timeline. A record begins when a push is requested or omitted, and ends when nothing more
/// can happen.
///
/// The timeline does no input or output itself: it receives the steps, and returns the complete records. Steps of
/// unknown records are ignored.
package struct PushTimeline: ~Copyable {
    private var entries = PlacedTable<RecordID, OpenRecord?>(empty: nil)
    /// The records by the codes of their pushes.
    private var receipts = SlotIndex()
    /// The maximum number of open records. Further records are not kept. 0 switches the timeline off.
    private let limit: Int
    /// The number of records that were not kept.
    package private(set) var omitted: UInt64 = 0

    package init(limit: Int) { self.limit = limit }

    package var isOn: Bool { limit > 0 }

    /// A record was not begun, because its caller reached the limit.
    package mutating func leftOut() { omitted += 1 }

    package var count: Int { entries.count }

    /// The open records that match a question, oldest first. This examines all records.
    package func underWay(_ isAsked: (TimelineRecord) -> Bool) -> [TimelineRecord] {
        entries.all.compactMap(\.value?.record).filter(isAsked).sorted { $0.id.rawValue < $1.id.rawValue }
    }

    // MARK: What happened

    package mutating func began(_ record: consuming TimelineRecord, now: Instant) {
        guard entries.count < limit else {
            omitted += 1
            return
        }
        let place = entries.madePlace(of: record.id)
        if let code = record.code { receipts.insert(hash: Self.hash(code, record.device), slot: place) }
        entries[place] = OpenRecord(record: record, began: now)
    }

    /// An app has reported on a push. Returns false if the record of the push is not open.
    package mutating func marked(_ code: PushCode, of device: DeviceID, _ mark: PushMark, at date: UnixTime) -> Bool {
        let place = receipts.find(hash: Self.hash(code, device)) {
            entries[$0]?.record.code == code && entries[$0]?.record.device == device
        }
        guard let place else { return false }
        entries[place]?.record.marks.set(mark, at: date)
        return true
    }

    /// A step of the push to the provider.
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

    /// The run that sent the push has ended, and its result is unknown.
    package mutating func lost(_ id: RecordID) { entry(id)?.record.delivery = .unknown }

    /// A REGISTER of the phone arrived. It is ignored after a sign of life of the phone, because it then has nothing to
    /// do with the call.
    package mutating func registered(_ id: RecordID, now: Instant) { entry(id)?.registered(now: now) }

    /// A sign of life arrived on the phone's registered flow, and the INVITE is sent there.
    package mutating func showedLife(_ id: RecordID, by sign: TimelineRecord.SignOfLife) {
        entry(id)?.showedLife(by: sign)
    }

    /// The INVITE was sent to the phone.
    package mutating func invited(_ id: RecordID, now: Instant) { entry(id)?.invited(now: now) }

    /// The phone answered with 180 or a higher status, and the call continues. Such an answer is ignored before this
    /// record's INVITE was sent.
    package mutating func rang(_ id: RecordID, now: Instant) { entry(id)?.rang(now: now) }

    /// The phone left the call, or answered it.
    package mutating func ended(
        _ id: RecordID, _ end: TimelineRecord.End, status: UInt16? = nil, now: Instant
    ) -> TimelineRecord? {
        guard let entry = entry(id) else { return nil }
        entry.ended(end, status, now: now)
        return taken(entry)
    }

    /// The daemon stops, so all open records are completed as they are. Records of calls stay open, because the next
    /// run continues them.
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

    /// A hash for one push on one device. Many devices may get the same push.
    private static func hash(_ code: PushCode, _ device: DeviceID) -> UInt32 {
        code.hash ^ UInt32(truncatingIfNeeded: device._rawHashValue(seed: 0))
    }

    /// The entry's record, if it is complete.
    private mutating func taken(_ entry: OpenRecord) -> TimelineRecord? {
        let record = entry.record
        guard record.isComplete, let place = entries.place(of: record.id) else { return nil }
        entries.remove(at: place)
        if let code = record.code { receipts.remove(hash: Self.hash(code, record.device), slot: place) }
        return record
    }
}

/// The steps of one record. This is a class, so that recording a step writes a few bytes and moves nothing.
private final class OpenRecord {
    var record: TimelineRecord
    let began: Instant

    private func offset(_ now: Instant) -> Int32 {
        Int32(clamping: now.nanoseconds.subtractingReportingOverflow(began.nanoseconds).partialValue / 1_000_000)
    }

    init(record: consuming TimelineRecord, began: Instant) {
        self.record = record
        self.began = began
    }

    func refused(_ refusal: PushRefusal) {
        switch refusal {
        case .queueFull: record.answer = .queueFull
        case .noApp: record.answer = .noApp
        case .paused: record.answer = .paused
        }
    }

    func sent(now: Instant) {
        record.tries += 1
        if record.steps.sent == nil { record.steps.sent = offset(now) }
    }

    func answered(_ outcome: PushOutcome, _ status: Int?, _ problem: String?, now: Instant) {
        record.steps.answered = offset(now)
        record.status = status
        record.noteAnswer(outcome)
        if let problem {
            record.reason = problem
        } else if record.answer == .failed, let status {
            record.reason = "\(status)"
        }
    }

    /// Sets the outcome: the last answer, or why no try was made.
    func finished(_ outcome: PushOutcome) {
        record.delivery = .finished
        switch outcome {
        // No tries or no time are left, so the last answer is the outcome.
        case .retry: record.answer = record.answer ?? .failed
        case .accepted, .acceptedWithNewToken, .tokenDead, .renewCredential, .credentialsRefused, .foreignToken,
            .noConnection,
            .payloadRefused,
            .noSuitableToken:
            record.noteAnswer(outcome)
        }
    }

    func registered(now: Instant) {
        guard record.steps.invited == nil else { return }
        if record.steps.registered == nil, record.sign == nil { record.steps.registered = offset(now) }
    }

    func showedLife(by sign: TimelineRecord.SignOfLife) {
        // A phone that got the INVITE and stayed silent was not released by a sign of life.
        if record.sign == nil, record.steps.invited == nil { record.sign = sign }
    }

    func invited(now: Instant) {
        if record.steps.invited == nil { record.steps.invited = offset(now) }
    }

    func rang(now: Instant) {
        if record.steps.rang == nil, record.steps.invited != nil { record.steps.rang = offset(now) }
    }

    /// Records a time unless one is already recorded.
    func ended(_ end: TimelineRecord.End, _ status: UInt16?, now: Instant) {
        guard record.end == nil else { return }
        record.end = end
        record.endStatus = status
        record.steps.ended = offset(now)
    }
}
