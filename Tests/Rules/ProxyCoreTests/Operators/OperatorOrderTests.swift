import Addressing
import Bytes
import Calling
import Collections
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

@Suite("Orders of operators")
struct OperatorOrderTests {

    @Test func `a call that waits is ended with the status, and is a missed call`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        let call = try #require(bench.engine.heldCalls.first)
        #expect(bench.engine.callEndedByOperator(call.id, with: 486, now: bench.now))
        #expect(story(bench.take()).contains("486 invite > pbx"))
        #expect(bench.engine.heldCalls.isEmpty)
        #expect(!bench.engine.callEndedByOperator(call.id, with: 486, now: bench.now))
        #expect(story(bench.register(cseq: 2)).contains { $0.hasPrefix("push missed") })
    }

    @Test func `a call that waits has its caller as the list of missed calls has it`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        let call = try #require(bench.engine.heldCalls.first)
        let aor = try #require(call.userCall?.aor)
        let caller = try #require(bench.engine.caller(of: call.id))
        #expect(!caller.isEmpty)
        #expect(bench.engine.buckets.entries(of: aor).map(\.caller) == [caller])
        #expect(bench.engine.heldCallCount == 1)
        #expect(bench.engine.callEndedByOperator(call.id, with: 486, now: bench.now))
        #expect(bench.engine.caller(of: call.id) == nil)
    }

    @Test func `the caller of a ringing phone gets the end at once, and does not get the phone's 487`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        bench.receive(SIPText.response(180, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        let call = try #require(bench.engine.heldCalls.first)
        #expect(bench.engine.callEndedByOperator(call.id, with: 480, now: bench.now))
        #expect(story(bench.take()) == ["480 invite > pbx", "cancel > phone"])
        let end = bench.receive(SIPText.response(487, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        #expect(story(end) == ["ack > phone"])
    }

    @Test func `a phone that answers a call which an operator has ended is hung up, unheard by the caller`() throws {
        let bench = EngineBench.registered()
        bench.invite()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        let call = try #require(bench.engine.heldCalls.first)
        #expect(bench.engine.callEndedByOperator(call.id, with: 603, now: bench.now))
        #expect(story(bench.take()) == ["603 invite > pbx"])
        let answer = SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@10.1.1.1")
            .replacing("Record-Route: ", with: "Record-Route: <sip:edge.example.net;lr>\r\nRecord-Route: ")
        let end = bench.receive(answer)
        #expect(story(end) == ["ack > phone", "bye > phone"])
        for request in end.compactMap({ sentRequest([$0]) }) {
            #expect(request.frame.values(of: .route).map(\.string) == ["<sip:edge.example.net;lr>"])
        }
        // The caller's CANCEL arrives after the call has ended, so it gets 200 and has no other effect.
        #expect(story(bench.cancel()) == ["200 cancel > pbx"])
    }

    @Test func `calls are listed in pages, oldest first, each once`() {
        let bench = EngineBench.registered()
        for number in 1...7 { bench.invite(callID: "call\(number)", branch: "i\(number)") }
        for limit in [1, 2, 3, 7, 100] {
            var found: [String] = []
            var next: PageCursor? = .beginning
            while let after = next {
                let page = bench.engine.heldCalls(after: after, limit: limit)
                #expect(page.elements.count <= limit)
                found += page.elements.compactMap(\.userCall?.callID.string)
                next = page.next
            }
            #expect(found == (1...7).map { "call\($0)" })
        }
        #expect(bench.engine.heldCalls(of: EngineBench.bob, orOf: ByteString("other")).count == 7)
        #expect(bench.engine.heldCalls(of: nil, orOf: ByteString("call3")).count == 1)
    }

    @Test func `a call is meant by its number, its reference and its Call-ID, and its devices are named`() throws {
        let bench = EngineBench.registered()
        for number in 1...3 { bench.invite(callID: "call\(number)", branch: "i\(number)") }
        let call = try #require(bench.engine.heldCalls.dropFirst().first)
        for text in ["\(call.id)", try #require(call.userCall?.callRef.description), "call2"] {
            #expect(bench.engine.heldCalls(named: text).map(\.id) == [call.id], "\(text)")
        }
        for text in ["", "call", "0123456789abcdef", "99999999999999999999"] {
            #expect(bench.engine.heldCalls(named: text).isEmpty, "\(text)")
        }
        let device = try #require(bench.targets.first?.id)
        #expect(call.waiting == [device] && call.ringing.isEmpty)
        bench.register(cseq: 2)
        let released = try #require(bench.engine.heldCalls(named: "call2").first)
        #expect(released.waiting.isEmpty && released.ringing == [device])
    }

    @Test func `the counters follow the events`() throws {
        let bench = EngineBench.registered()
        bench.register(user: "eve", token: nil, callID: "r5")
        bench.invite()
        var figures = bench.engine.figures
        #expect(figures[.bindings] == 2 && figures[.pushBindings] == 1 && figures[.addresses] == 2)
        #expect(figures[.heldCalls] == 1 && figures[.bucketEntries] == 1 && figures[.transactions] == 3)
        #expect(figures[.requestRegister] == 2 && figures[.requestInvite] == 1 && figures[.registerAccepted] == 2)
        #expect(figures[.bindingCreated] == 2 && figures[.call] == 1 && figures[.missedCallStored] == 1)
        #expect(figures[.response2xx] == 2)
        bench.engine.providerSwitched(.fcm, to: .off, now: bench.now)
        #expect(bench.engine.figures[.pushBindings] == 0)
        bench.engine.providerSwitched(.fcm, to: .on, now: bench.now)
        #expect(bench.engine.figures[.pushBindings] == 1)
        _ = bench.take()
        let call = bench.engine.heldCalls.first
        if let call { _ = bench.engine.callEndedByOperator(call.id, with: 480, now: bench.now) }
        bench.register(cseq: 3, expires: 0)
        figures = bench.engine.figures
        #expect(figures[.heldCalls] == 0 && figures[.bindings] == 1 && figures[.pushBindings] == 0)
        #expect(figures[.bindingRemoved] == 1 && figures[.bucketEntries] == 0)
    }

    @Test func `the outcome of a phone that was waited for is counted`() {
        let bench = EngineBench.registered()
        bench.invite()
        bench.register(cseq: 2)
        bench.invite(callID: "call2", branch: "i2")
        _ = bench.pass(.seconds(31))
        bench.invite(callID: "call3", branch: "i3")
        bench.cancel(callID: "call3", branch: "i3")
        let figures = bench.engine.figures
        #expect(figures[.heldDelivered] == 1 && figures[.heldTimedOut] == 1 && figures[.heldCancelled] == 1)
        #expect(figures[.delivery].total == 1)
    }

    @Test func `a bucket is emptied, except for calls that are still offered`() {
        let bench = EngineBench.registered()
        bench.invite()
        _ = bench.pass(.seconds(31))
        bench.invite(callID: "call2", branch: "i2")
        let calls = bench.engine.buckets.entries(of: EngineBench.bob).filter(\.isOver)
        #expect(calls.count == 1)
        bench.engine.missedCallsForgotten(calls, of: EngineBench.bob, now: bench.now)
        #expect(bench.engine.buckets.entries(of: EngineBench.bob).map(\.isOver) == [false])
        // The engine deletes nothing from the store, because the store has deleted the missed calls before `missedCallsForgotten` runs.
        #expect(bench.take().isEmpty)
        // An operator's second command to forget the same missed calls has no effect.
        bench.engine.missedCallsForgotten(calls, of: EngineBench.bob, now: bench.now)
        #expect(bench.take().isEmpty)
    }

    @Test func `a device is removed by its number, also one without push`() throws {
        for token in ["tok1", nil] {
            let bench = EngineBench.registered(token: token)
            let device = try #require(bench.targets.first?.id)
            bench.engine.devicesWithdrawn(
                .device(DeviceID(rawValue: device.rawValue + 1)), of: EngineBench.bob, ReportTicket(1), now: bench.now)
            #expect(bench.commitAll(in: bench.take()).isEmpty)
            #expect(bench.engine.bindings.count == 1)
            bench.engine.devicesWithdrawn(.device(device), of: EngineBench.bob, ReportTicket(2), now: bench.now)
            _ = bench.commitAll(in: bench.take())
            #expect(bench.engine.bindings.count == 0)
        }
    }
}
