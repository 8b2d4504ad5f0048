import Addressing
import Bytes
import JSON
import OTLP
import PushDelivery
import StoreTesting
import TestSupport
import Testing
import Timekeeping

@testable import ProxyRuntime

@Suite("Spans of a call")
struct SpanBuilderTests {
    private let builder = SpanBuilder(showsUsers: false)
    private let date = UnixTime(milliseconds: 1_764_000_000_000)
    private let start: Int64 = 1_764_000_000_000_000_000

    private func spans(_ change: (inout TimelineRecord) -> Void) -> [TraceSpan] {
        builder.spans(.sample(5, app: "fcm/second", at: date, change), unixStart: 0)
    }

    private func text(_ key: String, _ span: TraceSpan?) -> String? {
        span?.attributes.lazy.compactMap { attribute -> String? in
            guard "\(attribute.key)".contains("\"\(key)\"") else { return nil }
            switch attribute.value {
            case .text(let text): return text.string
            case .number(let number): return "\(number)"
            }
        }.first
    }

    private func step(_ microseconds: Int64) -> StepTime { StepTime(nanoseconds: microseconds * 1000) }

    @Test func `a woken phone that answers has a push, a wake and a ring`() throws {
        let spans = spans { record in
            record.status = 200
            record.end = .answered
            record.steps.sentAt = step(1)
            record.steps.answeredAt = step(84_002)
            record.steps.registeredAt = step(2_310_003)
            record.steps.invitedAt = step(2_311_004)
            record.steps.rangAt = step(2_400_005)
            record.steps.endedAt = step(4_100_006)
        }
        #expect(spans.map(\.name) == ["push", "wake", "ring"])
        #expect(spans.map(\.kind) == [.client, .internal, .client])
        #expect(spans.map { $0.start - start } == [0, 1000, 2_311_004_000])
        #expect(spans.map { $0.end - start } == [84_002_000, 2_310_003_000, 4_100_006_000])
        #expect(spans.allSatisfy { $0.failure == nil })
        #expect(Set(spans.map(\.id)).count == 3 && Set(spans.map(\.parent)).count == 1)
        #expect(spans.allSatisfy { $0.trace == TraceID(ofCall: ByteString("c5")) })
        #expect(spans[0].events.map(\.name) == ["push sent", "provider answered"])
        #expect(spans[2].events.map(\.time) == [start + 2_400_005_000])
        #expect(text("sippushd.provider", spans[0]) == "fcm" && text("sippushd.app", spans[0]) == "fcm/second")
        #expect(text("sippushd.push.result", spans[0]) == "accepted")
        #expect(text("http.response.status_code", spans[0]) == "200")
        #expect(text("sippushd.wake", spans[1]) == "register")
        #expect(text("sippushd.outcome", spans[2]) == "answered")
    }

    @Test func `a refused push and a phone that does not come are failures`() {
        let spans = spans { record in
            record.answer = .credentialsRefused
            record.reason = "InvalidProviderToken"
            record.status = 403
            record.end = .pushFailed
            record.steps.sentAt = step(1)
            record.steps.answeredAt = step(50)
            record.steps.endedAt = step(60)
        }
        #expect(spans.map(\.name) == ["push", "wake"])
        #expect(spans[0].failure == "InvalidProviderToken" && spans[1].failure == "push-failed")
        #expect(text("error.type", spans[0]) == "credentials-refused")
        #expect(text("sippushd.wake", spans[1]) == "none")
    }

    @Test func `a caller who gives up is no failure of the phone`() {
        let spans = spans { record in
            record.end = .callerGaveUp
            record.steps.sentAt = step(1)
            record.steps.endedAt = step(60)
        }
        #expect(spans.map(\.failure) == [nil, nil])
    }

    @Test func `a phone that needs no push has only a ring, and an omitted push has a span`() {
        func names(_ omission: TimelineRecord.Omission) -> [String] {
            let record = TimelineRecord(
                id: RecordID(rawValue: 1), kind: .call, user: .empty, host: .empty, device: 7,
                callRef: CallRef(rawValue: 1), callID: ByteString("c"), requestedAt: date, omission: omission)
            var ended = record
            ended.end = .refused
            ended.endStatus = 486
            ended.steps.invited = 1
            ended.steps.ended = 2
            return builder.spans(ended, unixStart: 0).map(\.name)
        }
        #expect(names(.ordinaryContact) == ["ring"])
        #expect(names(.justRegistered) == ["push", "ring"])
        #expect(names(.deviceLimit) == ["push", "wake", "ring"])
    }

    @Test func `the records of all phones of a call have the same parent in each run`() {
        let (first, second) = (
            TimelineRecord.sample(5, device: 1, at: date), TimelineRecord.sample(5, device: 2, at: date)
        )
        #expect(SpanBuilder.root(of: first) == SpanBuilder.root(of: second))
        #expect(SpanBuilder.root(of: first) != SpanBuilder.root(of: .sample(6, at: date)))
        #expect(builder.spans(first, unixStart: 0)[0].id != builder.spans(second, unixStart: 0)[0].id)
    }

    @Test func `the exact start is used unless the clock was set`() {
        let (date, coarse) = (UnixTime(milliseconds: 5000), 5_000_000_000 as Int64)
        #expect(SpanBuilder.start(date, Instant(nanoseconds: 345_678), coarse) == coarse + 345_678)
        #expect(SpanBuilder.start(date, Instant(nanoseconds: 0), coarse + 3_600_000_000_000) == coarse)
        #expect(SpanBuilder.start(date, .distantPast, coarse) == coarse)
        #expect(SpanBuilder.start(date, .distantFuture, .max) == coarse)
    }

    @Test func `only with the setting a span names the user, and never the other party`() {
        func json(_ showsUsers: Bool) -> String {
            let record = TimelineRecord.sample(5, device: .nobody, at: date) { record in
                record.peer = ByteString("\"Secret Name\" <sip:caller@example.net>")
                record.source = ByteString("192.0.2.1:5060")
                record.refused(.unknownUser, 404, share: .trusted)
            }
            let root = SpanBuilder(showsUsers: showsUsers).root(record, unixStart: 0)
            return String(decoding: root.json, as: UTF8.self)
        }
        #expect(!json(false).contains("bob") && json(true).contains("bob@example.net"))
        for text in [json(false), json(true)] {
            #expect(!text.contains("Secret") && !text.contains("caller@") && !text.contains("192.0.2.1"))
            #expect(text.contains("unknown-user") && text.contains("\"404\""))
        }
    }

    @Test func `a call from a phone is one span`() {
        let record = TimelineRecord.sample(5, device: .nobody, kind: .outgoing, at: date) { record in
            record.end = .answered
            record.steps.invitedAt = step(100)
            record.steps.rangAt = step(300)
            record.steps.endedAt = step(900)
        }
        let root = builder.root(record, unixStart: 0)
        #expect(root.name == "INVITE" && root.parent == nil && root.end - root.start == 900_000)
        #expect(root.events.map(\.name) == ["INVITE sent", "ringing"])
    }

    @Test func `errors of measurement do not move the start of the clock, and a set clock does`() {
        var start = ClockStart(1_000)
        #expect(start.value(measured: 1_003) == 1_000)
        #expect(start.value(measured: 997) == 1_000)
        #expect(start.value(measured: 2_000_000_000) == 2_000_000_000)
        #expect(start.value(measured: .min) == .min)
    }
}
