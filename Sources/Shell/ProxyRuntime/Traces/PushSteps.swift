import Addressing
import Bytes
import JSON
import PushDelivery
import Telemetry
import Timekeeping

/// Describes the steps of pushes for traces, as JSON in one line without secrets.
enum PushSteps {
    /// The request of one try, after the HTTP client got the request.
    static func sent(_ transmission: PushDispatcher.Transmission) -> JSONValue {
        .members([("push", "sent")] + members(of: transmission.push, transmission.app))
    }

    /// The result of one try to send the push; `nil` if the event is not the result of a try.
    static func result(
        _ event: PushDispatcher.Event
    ) -> (transmission: PushDispatcher.Transmission, json: JSONValue)? {
        switch event {
        case .answered(let transmission, let answer, let wait):
            let step = (200...299).contains(answer.status) ? "accepted" : "refused"
            return (
                transmission,
                .members(
                    [("push", .string(step)), ("status", .number(Int64(answer.status))), ("ms", milliseconds(wait))]
                        + members(of: transmission.push, transmission.app))
            )
        case .unanswered(let transmission, _, let problem):
            let reason = transmission.push.token.struck(from: problem)
            return (
                transmission,
                .members(
                    [("push", "unanswered"), ("reason", .string(reason))]
                        + members(of: transmission.push, transmission.app))
            )
        case .notSent(let transmission, _):
            return (
                transmission, .members([("push", "not-sent")] + members(of: transmission.push, transmission.app))
            )
        case .credentialMade, .credentialFailed: return nil
        }
    }

    private static func milliseconds(_ duration: Duration) -> JSONValue { .number(duration.nanoseconds / 1_000_000) }

    private static func members(of push: PushRequest, _ app: PushApp.ID) -> [(String, JSONValue)] {
        [
            ("kind", .string(kind(of: push.message))), ("provider", .string(push.token.provider.rawValue)),
            ("device", .string(push.device.name)), ("token", .string(Redacted(push.token.prid).description)),
        ]
    }

    private static func kind(of message: PushMessage) -> String {
        switch message {
        case .incomingCall: "call"
        case .missedCalls: "missed-calls"
        case .silent: "test"
        case .notification: "notification"
        }
    }

    /// The Call-ID of the call for which the push is sent; empty for other pushes.
    static func callID(of push: PushRequest) -> ByteString {
        guard case .incomingCall(let call) = push.message else { return .empty }
        return call.callID
    }

    // MARK: Records

    /// The steps that a complete record of the timeline shows, with their times in milliseconds since 1970.
    static func steps(of record: TimelineRecord) -> [(time: Int64, json: JSONValue)] {
        let start = record.requestedAt.milliseconds
        var steps: [(time: Int64, json: JSONValue)] = []
        let who: [(String, JSONValue)] = [
            ("user", .string("\(record.user)@\(record.host)")), ("device", .string(record.device.name)),
        ]
        if let omission = record.omission {
            steps.append((start, .members([("push", "omitted"), ("reason", .string(omission.rawValue))] + who)))
        } else if record.delivery != .none {
            steps.append((start, .members([("push", "asked"), ("app", .string(record.app))] + who)))
        }
        if let after = record.steps.registered {
            steps.append(
                (start + Int64(after), .members([("device-woke", "register"), ("ms", .number(Int64(after)))] + who)))
        } else if let sign = record.sign {
            let after = Int64(record.steps.invited ?? 0)
            steps.append(
                (start + after, .members([("device-woke", .string(sign.rawValue)), ("ms", .number(after))] + who)))
        }
        if let end = record.end { steps.append(ended(record, end, who)) }
        return steps
    }

    private static func ended(
        _ record: TimelineRecord, _ end: TimelineRecord.End, _ who: [(String, JSONValue)]
    ) -> (Int64, JSONValue) {
        let after = Int64(record.steps.ended ?? 0)
        var members: [(String, JSONValue)] = [("call", .string(end.rawValue)), ("ms", .number(after))]
        if let status = record.endStatus { members.append(("status", .number(Int64(status)))) }
        if let refusal = record.refusal { members.append(("refusal", .string(refusal.rawValue))) }
        if let answer = record.answer { members.append(("provider-answer", .string(answer.rawValue))) }
        if !record.reason.isEmpty { members.append(("reason", .string(record.reason))) }
        return (record.requestedAt.milliseconds + after, .members(members + who))
    }
}
