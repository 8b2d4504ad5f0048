@testable import Calling
import ProxyPolicy
import Bytes
import SIPTransactions
import Testing
import TestSupport
import Timekeeping

@Suite("Answered calls, without an engine")
struct AnsweredCallsTests {
    private let scene = MachineScene()
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let dialog = AnsweredCalls.dialogKey(ByteString("c"), ByteString("t"), 1)

    private func call(isInJournal: Bool = true) throws -> ProxiedRequest {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(
            try MachineScene.invite(), ServerTransactionID(rawValue: 1), branches: [], purpose: .userCall(scene.offer())
        )
        if isInJournal { call.journalBegan() }
        return call
    }

    private func due(_ calls: inout AnsweredCalls, after seconds: Int) -> ProxiedRequest? {
        calls.popDue(now: start + .seconds(seconds))
    }

    @Test func `with its ACK a call is kept for five seconds, without it for 32`() throws {
        let (talking, waiting) = (try call(), try call())
        let other = AnsweredCalls.dialogKey(ByteString("c"), ByteString("u"), 1)
        var calls = AnsweredCalls()
        calls.note(talking, in: dialog, now: start)
        calls.note(waiting, in: other, now: start)
        calls.acknowledged(dialog, now: start)
        #expect(due(&calls, after: 4) == nil)
        #expect(due(&calls, after: 5) === talking)
        #expect(due(&calls, after: 31) == nil)
        #expect(due(&calls, after: 32) === waiting)
        let isEmpty = calls.isEmpty
        #expect(isEmpty)
    }

    @Test func `only one timer counts, and timers that were armed for later have no effect`() throws {
        var calls = AnsweredCalls()
        #expect(wanted(&calls) == nil)
        calls.resume(try call(), now: start)
        #expect(wanted(&calls) == 32)
        #expect(wanted(&calls) == nil)
        calls.note(try call(), in: dialog, now: start + .seconds(1))
        calls.acknowledged(dialog, now: start + .seconds(1))
        #expect(wanted(&calls) == 6)
        #expect(fires(&calls, after: 6))
        #expect(due(&calls, after: 6) != nil)
        #expect(wanted(&calls) == 32)
        #expect(fires(&calls, after: 32))
        #expect(!fires(&calls, after: 32))
    }

    private func wanted(_ calls: inout AnsweredCalls) -> Int64? {
        calls.timerWanted().map { ($0 - start).components.seconds }
    }

    private func fires(_ calls: inout AnsweredCalls, after seconds: Int) -> Bool {
        calls.timerFired(now: start + .seconds(seconds))
    }

    @Test func `an answer is identified by its Call-ID, its tag and its CSeq`() {
        #expect(AnsweredCalls.dialogKey(ByteString("c"), ByteString("t"), 1) == dialog)
        #expect(AnsweredCalls.dialogKey(ByteString("d"), ByteString("t"), 1) != dialog)
        #expect(AnsweredCalls.dialogKey(ByteString("c"), ByteString("u"), 1) != dialog)
        #expect(AnsweredCalls.dialogKey(ByteString("c"), ByteString("t"), 2) != dialog)
        #expect(AnsweredCalls.dialogKey(ByteString("c"), nil, 1) != dialog)
    }

    @Test func `a copy of an answer counts once, and a copy after its ACK asks for another ACK`() throws {
        let call = try call()
        var calls = AnsweredCalls()
        calls.note(call, in: dialog, now: start)
        calls.note(call, in: dialog, now: start)
        #expect(call.journalling == .answered(1))
        calls.acknowledged(dialog, now: start)
        calls.note(call, in: dialog, now: start)
        #expect(call.journalling == .answered(2))
        #expect(due(&calls, after: 5) == nil)
        #expect(due(&calls, after: 32) === call)
    }

    @Test func `of two phones that answer at once each has its ACK`() throws {
        let call = try call()
        let other = AnsweredCalls.dialogKey(ByteString("c"), ByteString("u"), 1)
        var calls = AnsweredCalls()
        calls.note(call, in: dialog, now: start)
        calls.note(call, in: other, now: start)
        calls.acknowledged(other, now: start)
        #expect(due(&calls, after: 31) == nil)
        #expect(due(&calls, after: 32) === call)
    }

    @Test func `a call that is not written is not kept`() throws {
        var calls = AnsweredCalls()
        calls.note(try call(isInJournal: false), in: dialog, now: start)
        calls.resume(try call(isInJournal: false), now: start)
        let isEmpty = calls.isEmpty
        #expect(isEmpty)
    }

    @Test func `if too many have no ACK, the oldest is dropped`() throws {
        var calls = AnsweredCalls(limit: 2)
        let three = [try call(), try call(), try call()]
        for call in three { calls.resume(call, now: start) }
        #expect(due(&calls, after: 0) === three[0])
        #expect(due(&calls, after: 0) == nil)
    }
}
