import Addressing
import Bytes
import Calling
import OTLP
import ProxyCore
import PushDelivery
import Registration
import ServiceEvents
import Timekeeping

/// Makes the spans of a call from the report about its end, and from the timeline's records of its phones. No span
/// contains a token, a name that a caller wrote, or words of a message.
struct SpanBuilder {
    /// Whether spans contain the name of the user.
    let showsUsers: Bool

    /// The root span of a call for a user.
    func root(_ report: EndedCallReport, unixStart: Int64) -> TraceSpan {
        var span = TraceSpan(
            "INVITE", .server, in: TraceID(ofCall: report.callID), id: Self.root(of: report.callID, report.ref),
            from: Self.start(report.receivedAt, report.began, unixStart),
            to: Self.sum(report.ended.nanoseconds, unixStart))
        span.attributes = common(report.callID, report.ref, "incoming", report.aor.user, report.aor.host)
        span.attributes += [
            TraceAttribute("sip.status_code", report.status), TraceAttribute("sippushd.code", "\(report.code)"),
            TraceAttribute("sippushd.outcome", "\(report.code.words)"),
            TraceAttribute("sippushd.devices", report.count),
        ]
        if let device = report.device, device != .nobody {
            span.attributes.append(TraceAttribute("sippushd.device", device.name))
        }
        if report.code.isFailure { span.failure = "\(report.code.words)" }
        return span
    }

    /// The only span of a phone's call to the upstream, or of a call that was refused immediately.
    func root(_ record: TimelineRecord, unixStart: Int64) -> TraceSpan {
        let clock = StepClock(record, unixStart)
        var span = TraceSpan(
            "INVITE", .server, in: TraceID(ofCall: record.callID), id: Self.id("root", record), from: clock.start,
            to: clock.time(record.steps.endedAt) ?? clock.start)
        let direction = record.kind == .outgoing ? "outgoing" : "incoming"
        span.attributes = common(record.callID, record.callRef, direction, record.user, record.host)
        if let status = record.endStatus { span.attributes.append(TraceAttribute("sip.status_code", status)) }
        if let refusal = record.refusal {
            span.attributes.append(TraceAttribute("sippushd.outcome", refusal.rawValue))
            span.failure = refusal.rawValue
        } else if let end = record.end {
            span.attributes.append(TraceAttribute("sippushd.outcome", end.rawValue))
            if end.isFault { span.failure = end.rawValue }
        }
        if let time = clock.time(record.steps.invitedAt) { span.events.append(.init("INVITE sent", at: time)) }
        if let time = clock.time(record.steps.rangAt) { span.events.append(.init("ringing", at: time)) }
        return span
    }

    /// The spans of a phone's part of a call: the push, the wait for the phone, and the ringing.
    func spans(_ record: TimelineRecord, unixStart: Int64) -> [TraceSpan] {
        let clock = StepClock(record, unixStart)
        return [push(record, clock), wake(record, clock), ring(record, clock)].compactMap { $0 }
    }

    // MARK: The steps of a phone

    private func push(_ record: TimelineRecord, _ clock: StepClock) -> TraceSpan? {
        guard record.device != .nobody, record.omission != .ordinaryContact else { return nil }
        let steps = record.steps
        let last = [steps.answeredAt, steps.sentAt].compactMap { $0 }.first
        let withdrawn = [steps.registeredAt, steps.invitedAt, steps.endedAt].compactMap { $0 }.first
        let end = record.omission != nil ? nil : record.delivery == .withdrawn ? withdrawn ?? last : last
        var span = child("push", record.omission == nil ? .client : .internal, record, clock.start, clock.time(end))
        if let omission = record.omission {
            span.attributes.append(TraceAttribute("sippushd.push.omitted", omission.rawValue))
            return span
        }
        let app = record.app
        let provider = app.prefix { $0 != "/" }
        span.attributes += [
            TraceAttribute("sippushd.provider", String(provider)), TraceAttribute("sippushd.app", app),
            TraceAttribute("sippushd.push.tries", record.tries),
            TraceAttribute("sippushd.push.result", record.answer?.rawValue ?? record.delivery.rawValue),
        ]
        if let code = record.code { span.attributes.append(TraceAttribute("sippushd.push.code", "\(code)")) }
        if let status = record.status { span.attributes.append(TraceAttribute("http.response.status_code", status)) }
        if let time = clock.time(steps.sentAt) { span.events.append(.init("push sent", at: time)) }
        if let time = clock.time(steps.answeredAt) { span.events.append(.init("provider answered", at: time)) }
        if let answer = record.answer, !record.wasAccepted {
            span.attributes.append(TraceAttribute("error.type", answer.rawValue))
            span.failure = record.reason.isEmpty ? answer.rawValue : record.reason
        }
        return span
    }

    private func wake(_ record: TimelineRecord, _ clock: StepClock) -> TraceSpan? {
        switch record.omission {
        case nil, .deviceLimit, .callerLimit, .providerPaused: break
        default: return nil
        }
        let steps = record.steps
        guard record.device != .nobody, let end = steps.registeredAt ?? steps.invitedAt ?? steps.endedAt else {
            return nil
        }
        var span = child(
            "wake", .internal, record, clock.time(steps.sentAt) ?? clock.start, clock.time(end))
        if steps.registeredAt != nil {
            span.attributes.append(TraceAttribute("sippushd.wake", "register"))
        } else if let sign = record.sign {
            span.attributes.append(TraceAttribute("sippushd.wake", sign.rawValue))
        } else if steps.invitedAt == nil {
            span.attributes.append(TraceAttribute("sippushd.wake", "none"))
            if let end = record.end, end.isFault { span.failure = end.rawValue }
        }
        return span
    }

    private func ring(_ record: TimelineRecord, _ clock: StepClock) -> TraceSpan? {
        guard record.device != .nobody, let start = clock.time(record.steps.invitedAt) else { return nil }
        var span = child("ring", .client, record, start, clock.time(record.steps.endedAt))
        if let end = record.end {
            span.attributes.append(TraceAttribute("sippushd.outcome", end.rawValue))
            if end.isFault { span.failure = end.rawValue }
        }
        if let status = record.endStatus { span.attributes.append(TraceAttribute("sip.status_code", status)) }
        if let time = clock.time(record.steps.rangAt) { span.events.append(.init("ringing", at: time)) }
        return span
    }

    private func child(
        _ name: String, _ kind: TraceSpan.Kind, _ record: TimelineRecord, _ start: Int64, _ end: Int64?
    ) -> TraceSpan {
        var span = TraceSpan(
            name, kind, in: TraceID(ofCall: record.callID), id: Self.id(name, record), parent: Self.root(of: record),
            from: start, to: end ?? start)
        span.attributes.append(TraceAttribute("sippushd.device", record.device.name))
        return span
    }

    // MARK: Identity

    private func common(
        _ callID: ByteString, _ ref: CallRef?, _ direction: String, _ user: ByteString, _ host: ByteString
    ) -> [TraceAttribute] {
        var attributes = [
            TraceAttribute("sip.call_id", callID), TraceAttribute("sip.method", "INVITE"),
            TraceAttribute("sippushd.direction", direction),
        ]
        if let ref { attributes.append(TraceAttribute("sippushd.call_ref", "\(ref)")) }
        if showsUsers { attributes.append(TraceAttribute("user.name", "\(user)@\(host)")) }
        return attributes
    }

    /// The root span of the call to which the record belongs.
    static func root(of record: TimelineRecord) -> SpanID {
        record.callRef.map { root(of: record.callID, $0) } ?? id("root", record)
    }

    private static func root(of callID: ByteString, _ ref: CallRef) -> SpanID {
        SpanID(of: callID, ByteString("\(ref)"))
    }

    private static func id(_ name: String, _ record: TimelineRecord) -> SpanID {
        SpanID(
            of: record.callID, ByteString(name), ByteString(record.callRef?.description ?? ""), record.user,
            record.host, ByteString("\(record.device.rawValue) \(record.id.rawValue)"),
            ByteString("\(record.requestedAt.milliseconds)"))
    }

    // MARK: Times

    /// The start of a call or record in nanoseconds since 1970. The monotonic time is exact; after a change of the
    /// clock, or for a call from before a restart, it is wrong.
    static func start(_ date: UnixTime, _ began: Instant, _ unixStart: Int64) -> Int64 {
        let coarse = date.milliseconds.multipliedReportingOverflow(by: 1_000_000).partialValue
        let exact = sum(began.nanoseconds, unixStart)
        let (distance, overflow) = exact.subtractingReportingOverflow(coarse)
        return !overflow && (-1_000_000...2_000_000).contains(distance) ? exact : coarse
    }

    static func sum(_ left: Int64, _ right: Int64) -> Int64 {
        let (sum, overflow) = left.addingReportingOverflow(right)
        return overflow ? 0 : sum
    }

    /// Converts the steps of a record to nanoseconds since 1970.
    private struct StepClock {
        let start: Int64

        init(_ record: TimelineRecord, _ unixStart: Int64) {
            start = SpanBuilder.start(record.requestedAt, record.began, unixStart)
        }

        func time(_ step: StepTime?) -> Int64? { step.map { SpanBuilder.sum(start, $0.microseconds &* 1000) } }
    }
}

extension TimelineRecord.End {
    /// Whether the phone got no call because of the daemon, a push provider, the network or the phone, and not because
    /// of a person.
    fileprivate var isFault: Bool {
        switch self {
        case .noAnswer, .unreachable, .timeOver, .boundReached, .notWaited, .tokenDead, .providerOff, .pushFailed,
            .forwarded:
            true
        case .answered, .answeredElsewhere, .declinedElsewhere, .refused, .callerGaveUp, .endedByOperator, .signedOut,
            .notOffered, .stopped, .restarted, .turnCame, .turnOver:
            false
        }
    }
}
