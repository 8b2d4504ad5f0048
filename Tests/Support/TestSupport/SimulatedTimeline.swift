import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Timekeeping

/// Collects the timeline records of a simulated day, and checks whether they are plausible.
struct SimulatedTimeline {
    /// The pushes that the engine has requested since the last crash, with their times.
    private var asked: [Receipt: Instant] = [:]
    /// The pushes that engines before the last crash have requested.
    private var askedBefore = Set<Receipt>()
    private var answered = Set<Receipt>()
    private var recorded = Set<RecordID>()
    private(set) var records: [TimelineRecord] = []

    /// A simulated push to one device.
    private struct Receipt: Hashable {
        let code: PushCode
        let device: DeviceID
    }

    mutating func pushAsked(_ request: PushRequest, now: Instant) {
        asked[Receipt(code: request.code, device: request.device)] = now
    }

    /// Handles a crash of the daemon, which loses the timeline records of open calls. The next engine numbers its
    /// timeline records from the start.
    mutating func crashed() {
        askedBefore.formUnion(asked.keys)
        asked = [:]
        answered = []
        recorded = []
    }

    /// Checks a timeline record of a call. The parameter `age` is the time since the INVITE of a call that another node or
    /// run has continued; that run began its own record.
    ///
    /// - Returns: the errors in the timeline record.
    mutating func complaints(about record: TimelineRecord, age: Duration?, ringsLiveFlows: Bool) -> [String] {
        records.append(record)
        if record.refusal != nil { return record.isComplete ? [] : ["the record of a refusal: not complete"] }
        var complaints: [String] = []
        if !recorded.insert(record.id).inserted { complaints.append("written twice") }
        if !record.isComplete { complaints.append("not complete") }
        if record.kind == .outgoing {
            let order = [record.steps.invited, record.steps.rang, record.steps.ended].compactMap { $0 }
            if order != order.sorted() { complaints.append("out of order: \(order)") }
            return complaints.map { "the record of \(record.callID), which a phone made: \($0)" }
        }
        let receipt = record.code.map { Receipt(code: $0, device: record.device) }
        if let receipt { answered.insert(receipt) }
        let isOfEarlierRun = receipt.map { asked[$0] == nil && askedBefore.contains($0) } ?? false
        if (receipt.flatMap { asked[$0] } == nil && !isOfEarlierRun) != (record.omission != nil) {
            complaints.append("a push that was not asked for")
        }
        if record.omission == nil, !isOfEarlierRun, record.tries == 0 || record.steps.sent == nil {
            complaints.append("never sent")
        }
        guard record.kind == .call else { return complaints.map { "the record of a list: \($0)" } }
        let steps = record.steps
        if record.omission == nil, steps.invited != nil, steps.registered == nil, record.sign == nil, !ringsLiveFlows,
            !isOfEarlierRun
        {
            complaints.append("invited before it registered")
        }
        let order = [steps.registered, steps.invited, steps.rang, steps.ended].compactMap { $0 }
        if order != order.sorted() { complaints.append("out of order: \(order)") }
        switch record.end {
        case .answered, .refused:
            if steps.invited == nil, !wasInvitedEarlier(record) {
                complaints.append("\(record.end?.rawValue ?? "") without an INVITE")
            }
        case .timeOver:
            let waited = age ?? .milliseconds(steps.ended ?? 0)
            if steps.invited != nil || waited < .milliseconds(29_900) { complaints.append("the time was not over") }
        case nil: complaints.append("no end")
        default: break
        }
        return complaints.map { "the record of \(record.callID) and device \(record.device): \($0)" }
    }

    /// Whether an earlier timeline record of the call already has an INVITE to the phone. A phone that was lost while
    /// it rang gets a second timeline record, and may answer the first INVITE.
    private func wasInvitedEarlier(_ record: TimelineRecord) -> Bool {
        records.contains {
            $0.callID == record.callID && $0.device == record.device && $0.end == .unreachable
                && $0.steps.invited != nil
        }
    }

    /// Checks in the evening, when no call is active, that no timeline record is missing.
    ///
    /// - Returns: complaints about missing timeline records.
    func complaints(inEveningOf engine: ProxyEngine, calls: [String], now: Instant) -> [String] {
        var complaints: [String] = []
        let missing = asked.filter { !answered.contains($0.key) && now - $0.value > .seconds(1) }.count
        if missing > 0 { complaints.append("\(missing) pushes have no record") }
        if engine.timeline.count > missing {
            let open = engine.timeline.underWay { _ in true }.map {
                "\($0.callID) \($0.device) \($0.delivery) \($0.end?.rawValue ?? "no end")"
            }
            complaints.append("\(engine.timeline.count) records are never complete: \(open.joined(separator: ", "))")
        }
        let known = Set(records.map(\.callID.string))
        for call in calls where !known.contains(call) { complaints.append("\(call) has no record") }
        return complaints
    }
}
