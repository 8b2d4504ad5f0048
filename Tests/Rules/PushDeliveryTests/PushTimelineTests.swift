import Addressing
import Bytes
import PushDelivery
import TestSupport
import Testing
import Timekeeping

@Suite("Timeline of a push")
struct PushTimelineTests {
    private let id = RecordID(rawValue: 7)
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func record(
        _ number: UInt64 = 7, kind: TimelineRecord.Kind = .call, omission: TimelineRecord.Omission? = nil
    ) -> TimelineRecord {
        TimelineRecord(
            id: RecordID(rawValue: number), kind: kind, user: ByteString("bob"), host: ByteString("example.net"),
            device: 71, callRef: CallRef(rawValue: 1), callID: ByteString("a84b4c76e66710"), requestedAt: sampleDate,
            omission: omission, code: omission == nil ? sampleCode : nil)
    }

    private func at(_ milliseconds: Int64) -> Instant { start + .milliseconds(milliseconds) }

    private func timeline(_ record: TimelineRecord) -> PushTimeline {
        var timeline = PushTimeline(limit: 10)
        timeline.began(record, now: start)
        return timeline
    }

    @Test func `a call's record is complete when the push and the branch are over; no phone rings before the INVITE`()
        throws
    {
        var timeline = timeline(record())
        #expect(timeline.noted(id, .queued(app: "fcm/second"), now: at(0)) == nil)
        #expect(timeline.noted(id, .sent, now: at(1)) == nil)
        let outcome = PushOutcome.accepted(ByteString("projects/x/messages/123"))
        #expect(timeline.noted(id, .answered(outcome, status: 200, problem: nil), now: at(84)) == nil)
        #expect(timeline.noted(id, .finished(outcome), now: at(84)) == nil)
        timeline.rang(id, now: at(2300))
        timeline.registered(id, now: at(2310))
        timeline.invited(id, now: at(2311))
        timeline.rang(id, now: at(2400))
        timeline.rang(id, now: at(2500))
        #expect(timeline.count == 1)
        let last = timeline.ended(id, .answered, now: at(4100))
        let done = try #require(last)
        #expect(done.app == "fcm/second")
        #expect(done.code == sampleCode)
        #expect(done.answer == .accepted)
        #expect(done.providerID == ByteString("projects/x/messages/123"))
        #expect(done.status == 200)
        #expect(done.tries == 1)
        let steps = done.steps
        #expect(
            [steps.sent, steps.answered, steps.registered, steps.invited, steps.rang, steps.ended] == [
                1, 84, 2310, 2311, 2400, 4100,
            ])
        #expect(done.end == .answered)
        #expect(timeline.count == 0)
    }

    @Test func `a branch that ends first waits for the provider's answer`() throws {
        var timeline = timeline(record())
        _ = timeline.noted(id, .sent, now: at(1))
        #expect(timeline.ended(id, .callerGaveUp, now: at(50)) == nil)
        let last = timeline.noted(id, .withdrawn, now: at(50))
        let done = try #require(last)
        #expect(done.delivery == .withdrawn)
        #expect(done.answer == nil)
        #expect(done.end == .callerGaveUp)
    }

    @Test func `a call without a push waits for its branch alone`() throws {
        var timeline = timeline(record(omission: .ordinaryContact))
        timeline.invited(id, now: at(0))
        let last = timeline.ended(id, .refused, status: 486, now: at(900))
        let done = try #require(last)
        #expect(done.delivery == .none)
        #expect(done.endStatus == 486)
    }

    @Test func `missed calls wait for the provider alone`() throws {
        var timeline = timeline(record(kind: .missedCalls))
        let last = timeline.noted(id, .finished(.accepted(nil)), now: at(5))
        let done = try #require(last)
        #expect(done.end == nil)
        #expect(done.isComplete)
    }

    @Test func `tries are counted and the trouble before success is kept`() throws {
        var timeline = timeline(record(kind: .missedCalls))
        _ = timeline.noted(id, .sent, now: at(1))
        _ = timeline.noted(id, .answered(.retry(after: nil), status: nil, problem: "connect: refused"), now: at(2))
        _ = timeline.noted(id, .sent, now: at(300))
        _ = timeline.noted(id, .answered(.accepted(nil), status: 200, problem: nil), now: at(350))
        let last = timeline.noted(id, .finished(.accepted(nil)), now: at(350))
        let done = try #require(last)
        #expect(done.tries == 2)
        #expect(done.steps.sent == 1)
        #expect(done.steps.answered == 350)
        #expect(done.answer == .accepted)
        #expect(done.reason == "connect: refused")
    }

    @Test(arguments: [
        (PushOutcome.tokenDead(since: sampleDate), TimelineRecord.Answer.tokenDead, ""),
        (.retry(after: nil), .failed, "503"), (.renewCredential, .credentialsRefused, "the credential has expired"),
        (.credentialsRefused("InvalidProviderToken"), .credentialsRefused, "InvalidProviderToken"),
        (.payloadRefused("BadTopic"), .payloadRefused, "BadTopic"), (.noSuitableToken, .noSuitableToken, ""),
        (.acceptedWithNewToken(ByteString("secret")), .acceptedWithNewToken, ""),
    ])
    func `each outcome has its word`(outcome: PushOutcome, answer: TimelineRecord.Answer, reason: String) throws {
        var timeline = timeline(record(kind: .missedCalls))
        _ = timeline.noted(id, .sent, now: at(1))
        _ = timeline.noted(id, .answered(outcome, status: 503, problem: nil), now: at(2))
        let last = timeline.noted(id, .finished(outcome), now: at(3))
        let done = try #require(last)
        #expect(done.answer == answer)
        #expect(done.reason == reason)
        #expect(done.deadSince == (answer == .tokenDead ? sampleDate : nil))
        #expect(!"\(done)".contains("secret"))
    }

    @Test(arguments: [(PushRefusal.queueFull, TimelineRecord.Answer.queueFull), (.noApp, .noApp)])
    func `a push that is not even queued has its reason`(refusal: PushRefusal, answer: TimelineRecord.Answer) throws {
        var timeline = timeline(record(kind: .missedCalls))
        _ = timeline.noted(id, .refused(refusal), now: at(0))
        let last = timeline.noted(id, .finished(.retry(after: nil)), now: at(0))
        let done = try #require(last)
        #expect(done.answer == answer)
        #expect(done.steps.sent == nil)
    }

    @Test func `the first end counts`() throws {
        var timeline = timeline(record())
        _ = timeline.ended(id, .timeOver, now: at(30_000))
        _ = timeline.ended(id, .unreachable, now: at(30_001))
        let last = timeline.noted(id, .withdrawn, now: at(30_002))
        let done = try #require(last)
        #expect(done.end == .timeOver)
        #expect(done.steps.ended == 30_000)
    }

    @Test func `more than the limit is not kept, and unknown records are passed over`() {
        var timeline = PushTimeline(limit: 1)
        timeline.began(record(1), now: start)
        timeline.began(record(2), now: start)
        #expect(timeline.count == 1)
        #expect(timeline.omitted == 1)
        #expect(timeline.ended(RecordID(rawValue: 2), .answered, now: start) == nil)
        #expect(timeline.noted(RecordID(rawValue: 2), .withdrawn, now: start) == nil)
    }

    @Test func `when the daemon stops, open records are completed, except for calls, which continue`() {
        var timeline = PushTimeline(limit: 10)
        timeline.began(record(2, kind: .notification), now: start)
        timeline.began(record(1, kind: .missedCalls, omission: .justRegistered), now: start)
        timeline.began(record(3), now: start)
        timeline.began(record(4, kind: .outgoing), now: start)
        let records = timeline.stopped(now: at(9))
        #expect(records.map(\.id.rawValue) == [1, 2])
        #expect(records.allSatisfy { $0.isComplete && $0.end == .stopped && $0.steps.ended == 9 })
        #expect(timeline.count == 0)
    }

    @Test func `steps have microseconds for 35 minutes, and milliseconds after that`() {
        for (nanoseconds, microseconds, milliseconds) in [
            (-5, 0, 0), (0, 0, 0), (999, 0, 0), (1_234_567, 1234, 1), (999_999_999, 999_999, 999),
            (2_147_483_647_000, 2_147_483_647, 2_147_483), (2_147_484_000_000, 2_147_484_000, 2_147_484),
            (9_999_999_999_999, 9_999_999_000, 9_999_999), (Int64.max, Int64(Int32.max) * 1000, Int64(Int32.max)),
        ] as [(Int64, Int64, Int64)] {
            let time = StepTime(nanoseconds: nanoseconds)
            #expect(time.microseconds == microseconds && Int64(time.milliseconds) == milliseconds)
            #expect(time != .absent)
        }
        for milliseconds in [Int32.min, -1, 0, 1, 30_000, 2_147_483, 2_147_484, .max] {
            #expect(StepTime(milliseconds: milliseconds).milliseconds == max(0, milliseconds))
        }
        var timeline = timeline(record())
        timeline.registered(id, now: start + .microseconds(2_310_042))
        let record = timeline.underWay { _ in true }.first
        #expect(record?.steps.registeredAt?.microseconds == 2_310_042 && record?.steps.registered == 2310)
        #expect(record?.began == start)
    }

    @Test func `a clock far ahead does no harm`() {
        var timeline = timeline(record())
        timeline.registered(id, now: .distantFuture)
        #expect(timeline.underWay { _ in true }.first?.steps.registered == .max)
    }
}
