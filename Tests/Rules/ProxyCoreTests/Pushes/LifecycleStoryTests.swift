import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@Suite("Outcomes of pushes, and badges")
struct LifecycleStoryTests {
    private let tablet = Endpoint(IPAddress(v4: 0xc000_0206), 40_001)

    /// Makes a call to bob, for which his phone gets a push.
    private func call(_ number: Int, _ bench: EngineBench) -> [PushRequest] {
        bench.invite(callID: "call\(number)", branch: "i\(number)").pushes
    }

    private func finish(
        _ push: PushRequest, _ bench: EngineBench, _ outcome: PushOutcome = .accepted(nil)
    ) -> [ProxyAction] {
        bench.finish(push.id, outcome)
        return bench.take()
    }

    private func answer(_ status: Status, _ actions: [ProxyAction], _ bench: EngineBench) throws -> [ProxyAction] {
        let request = try #require(actions.invites.last)
        return bench.receive(SIPText.response(status, to: request, tag: "p", contact: "sip:bob@192.0.2.5"))
    }

    /// Makes calls with the given numbers; nobody answers the calls.
    private func missed(_ numbers: ClosedRange<Int>, _ bench: EngineBench) throws -> [PushRequest] {
        var pushes: [PushRequest] = []
        for number in numbers {
            let push = try #require(call(number, bench).first)
            _ = finish(push, bench)
            pushes.append(push)
            _ = bench.pass(.seconds(31))
        }
        return pushes
    }

    @Test func `the badge counts until the app reports the push as read`() throws {
        let bench = EngineBench.registered()
        let pushes = try missed(1...3, bench)
        #expect(pushes.map(\.badge) == [1, 2, 3])
        #expect(Set(pushes.map(\.code)).count == 3)
        let device = pushes[0].device
        #expect(bench.engine.pushMarked(pushes[1].code, .received, by: device, now: bench.now) == .row)
        #expect(bench.engine.pushMarked(pushes[1].code, .followed, by: device, now: bench.now) == .row)
        #expect(try missed(4...4, bench).map(\.badge) == [4])
        for _ in 0..<2 {
            #expect(bench.engine.pushMarked(pushes[1].code, .read, by: device, now: bench.now) == .row)
        }
        #expect(try missed(5...5, bench).map(\.badge) == [4])
        #expect(bench.engine.allPushesRead(by: device, now: bench.now))
        #expect(try missed(6...6, bench).map(\.badge) == [1])
    }

    @Test func `devices have badges of their own`() throws {
        let bench = EngineBench.registered()
        bench.register(token: "tok2", callID: "r2", from: tablet)
        let pushes = call(1, bench)
        #expect(pushes.map(\.badge) == [1, 1] && Set(pushes.map(\.device)).count == 2)
        for push in pushes { _ = finish(push, bench) }
        _ = bench.engine.pushMarked(pushes[0].code, .read, by: pushes[0].device, now: bench.now)
        // A device cannot report the push of another device as read.
        _ = bench.engine.pushMarked(pushes[0].code, .read, by: pushes[1].device, now: bench.now)
        _ = bench.pass(.seconds(31))
        let next = call(2, bench)
        #expect(next.first { $0.device == pushes[0].device }?.badge == 1)
        #expect(next.first { $0.device == pushes[1].device }?.badge == 2)
    }

    @Test func `a push that the provider does not take does not count`() throws {
        let bench = EngineBench.registered()
        _ = finish(try #require(call(1, bench).first), bench, .payloadRefused("no"))
        _ = finish(try #require(call(2, bench).first), bench)
        // The phone registers before the provider answers the push, and gets a list of missed calls.
        let third = try #require(call(3, bench).first)
        #expect(third.badge == 2)
        let list = try #require(bench.register(cseq: 2).pushes.first)
        #expect(list.badge == 3)
        _ = finish(list, bench, .noSuitableToken)
        #expect(bench.engine.unread.count(of: third.device) == 2)
        _ = finish(third, bench, .payloadRefused("no"))
        #expect(bench.engine.unread.count(of: third.device) == 1)
    }

    @Test func `pushes of calls that an operator had forgotten do not count`() throws {
        let bench = EngineBench.registered()
        let pushes = try missed(1...2, bench)
        #expect(pushes.map(\.badge) == [1, 2])
        let calls = bench.engine.buckets.entries(of: EngineBench.bob)
        bench.engine.missedCallsForgotten(Array(calls.prefix(1)), of: EngineBench.bob, now: bench.now)
        #expect(bench.take().readCodes == [pushes[0].code])
        #expect(try missed(3...3, bench).map(\.badge) == [2])
    }

    @Test func `an answered call is read on all phones`() throws {
        let bench = EngineBench.registered()
        bench.register(token: "tok2", callID: "r2", from: tablet)
        let pushes = call(1, bench)
        for push in pushes { _ = finish(push, bench) }
        let released = bench.register(cseq: 2)
        let actions = try answer(200, released, bench)
        #expect(bench.engine.unread.count == 0)
        #expect(actions.records.count == 2)
        #expect(actions.records.allSatisfy { $0.marks.read == bench.now.date && $0.marks.followed == nil })
    }

    @Test func `the provider's answer is added to a record that is already written`() throws {
        let bench = EngineBench.registered()
        bench.register(token: "tok2", callID: "r2", from: tablet)
        let pushes = call(1, bench)
        for push in pushes { _ = finish(push, bench) }
        let first = bench.register(cseq: 2)
        let refused = try #require(first.invites.last)
        #expect(try answer(486, first, bench).records.map(\.end) == [.refused])
        let second = bench.register(token: "tok2", callID: "r2", cseq: 2, from: tablet)
        let request = try #require(second.invites.last)
        let answered = bench.receive(
            SIPText.response(200, to: request, tag: "q", contact: "sip:bob@192.0.2.6"), from: tablet)
        #expect(refused.callID == request.callID)
        let code = try #require(pushes.first { $0.token.prid == ByteString("tok1") }?.code)
        #expect(answered.readCodes == [code])
        #expect(answered.records.map(\.marks.read) == [bench.now.date])
    }

    @Test func `a list of missed calls replaces the calls in it`() throws {
        let bench = EngineBench.registered()
        let calls = try missed(1...2, bench)
        let list = try #require(bench.register(cseq: 2).pushes.first)
        #expect(list.badge == 1)
        let accepted = finish(list, bench)
        #expect(Set(accepted.readCodes) == Set(calls.map(\.code)))
        #expect(bench.engine.unread.count == 1)
        // The badge of the third call's push counts the list of missed calls and the push itself.
        let third = try missed(3...3, bench)
        #expect(third.map(\.badge) == [2])
        let next = try #require(bench.register(cseq: 3).pushes.first)
        #expect(next.badge == 1)
        #expect(Set(finish(next, bench).readCodes) == [list.code, third[0].code])
    }

    @Test func `a list that is not accepted marks nothing as read`() throws {
        let bench = EngineBench.registered()
        _ = try missed(1...2, bench)
        let list = try #require(bench.register(cseq: 2).pushes.first)
        #expect(finish(list, bench, .payloadRefused("no")).readCodes.isEmpty)
        #expect(bench.engine.unread.count == 2)
    }

    @Test func `marks go into the record while the call rings`() throws {
        let bench = EngineBench.registered()
        let push = try #require(call(1, bench).first)
        let device = push.device
        #expect(bench.engine.pushMarked(push.code, .received, by: device, now: bench.now) == .record)
        let first = bench.now.date
        _ = finish(push, bench)
        _ = bench.pass(.seconds(1))
        for mark in PushMark.allCases {
            #expect(bench.engine.pushMarked(push.code, mark, by: device, now: bench.now) == .record)
        }
        let second = bench.now.date
        let record = try #require(bench.pass(.seconds(30)).records.first)
        #expect(record.marks.received == first)
        #expect(record.marks.followed == second && record.marks.read == second)
    }

    @Test(arguments: PushMark.allCases)
    func `each mark is independent of the others`(mark: PushMark) throws {
        let bench = EngineBench.registered()
        let push = try #require(call(1, bench).first)
        let device = push.device
        #expect(bench.engine.pushMarked(push.code, mark, by: device, now: bench.now) == .record)
        _ = finish(push, bench)
        let record = try #require(bench.pass(.seconds(31)).records.first)
        let marks = record.marks
        for (other, date) in [(PushMark.received, marks.received), (.followed, marks.followed), (.read, marks.read)] {
            #expect((date != nil) == (other == mark))
        }
    }

    @Test func `a device that was removed is unknown, and has no unread pushes`() throws {
        let bench = EngineBench.registered()
        let push = try #require(try missed(1...1, bench).first)
        let device = push.device
        bench.register(cseq: 2, expires: 0)
        #expect(bench.engine.unread.count == 0)
        #expect(bench.engine.pushMarked(push.code, .read, by: device, now: bench.now) == .unknownDevice)
        #expect(!bench.engine.allPushesRead(by: device, now: bench.now))
        bench.engine.restoreUnread(push.code, .other, of: device, at: bench.now.date)
        #expect(bench.engine.unread.count == 0)
    }

    @Test func `unread pushes from before a restart still count`() throws {
        let bench = EngineBench.registered()
        let device = try #require(bench.engine.bindings.bindings(for: EngineBench.bob, now: bench.now.instant).first).id
        for number in 1...2 as ClosedRange<UInt64> {
            bench.engine.restoreUnread(
                PushCode(high: number, low: number), .list, of: device, at: bench.now.date + .seconds(-60))
        }
        #expect(call(1, bench).map(\.badge) == [3])
    }

    @Test func `badges also count without a timeline`() throws {
        let bench = EngineBench.registered { $0.timelineLimit = 0 }
        #expect(try missed(1...2, bench).map(\.badge) == [1, 2])
        let list = try #require(bench.register(cseq: 2).pushes.first)
        #expect(finish(list, bench).readCodes.isEmpty)
        #expect(bench.engine.unread.count == 1)
    }
}

extension [ProxyAction] {
    /// The codes of the pushes that the actions store as read.
    var readCodes: [PushCode] {
        flatMap { action -> [PushCode] in
            guard case .trace(let changes) = action else { return [] }
            return changes.flatMap { change -> [PushCode] in
                guard case .pushesRead(let codes, _, _) = change else { return [] }
                return codes
            }
        }
    }
}
