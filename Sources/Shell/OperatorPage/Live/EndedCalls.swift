import Bytes
import Calling
import PushDelivery
import PushPlanning
import Timekeeping

/// The calls that have ended since the last snapshot, while an operator watches the live view.
struct EndedCalls {
    private var calls: [LiveSnapshot.EndedCall] = []
    /// The index in ``calls`` of each call, by the call's reference, because each phone of a call has its own record.
    private var places: [CallRef: Int] = [:]

    static let limit = 100

    /// Notes the end of a call. If one phone answered the call, the call is treated as answered, whatever the result at
    /// the other phones is.
    mutating func note(_ record: TimelineRecord) {
        guard record.kind == .call || record.kind == .outgoing, let end = record.end else { return }
        if let ref = record.callRef, let place = places[ref] {
            if end == .answered { calls[place].end = end.rawValue }
            return
        }
        guard calls.count < Self.limit else { return }
        if let ref = record.callRef { places[ref] = calls.count }
        let time = record.requestedAt.milliseconds.addingReportingOverflow(Int64(record.steps.ended ?? 0)).partialValue
        calls.append(
            LiveSnapshot.EndedCall(
                user: "\(record.user)@\(record.host)", callID: record.callID.string, end: end.rawValue, at: time))
    }

    mutating func take() -> [LiveSnapshot.EndedCall] {
        defer { self = EndedCalls() }
        return calls
    }
}
