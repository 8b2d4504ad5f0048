import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Testing
import TestSupport
import Timekeeping

@Suite("What operators order")
struct OperatorOrderTests {
    private let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    @Test func `a call that waits is ended with the status, and is a missed call`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let call = try #require(bench.engine.heldCalls.first)
        #expect(bench.engine.callDismissed(call.id, with: 486, now: bench.now))
        #expect(story(bench.take()).contains("486 invite > pbx"))
        #expect(bench.engine.heldCalls.isEmpty)
        #expect(!bench.engine.callDismissed(call.id, with: 486, now: bench.now))
        #expect(story(bench.register(cseq: 2)).contains { $0.hasPrefix("push missed") })
    }

    @Test func `a phone that rings is cancelled first, and its 487 does not reach the caller`() throws {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        bench.receive(SIPText.response(180, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        let call = try #require(bench.engine.heldCalls.first)
        #expect(bench.engine.callDismissed(call.id, with: 480, now: bench.now))
        #expect(story(bench.take()) == ["cancel > phone"])
        let end = bench.receive(SIPText.response(487, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        #expect(story(end).contains("480 invite > pbx"))
    }

    @Test func `calls are listed in pages, oldest first, each once`() {
        let bench = EngineBench()
        bench.register()
        for number in 1...7 { bench.invite(callID: "call\(number)", branch: "i\(number)") }
        for limit in [1, 2, 3, 7, 100] {
            var found: [String] = []
            var next: UInt64? = 0
            while let after = next {
                let page = bench.engine.heldCalls(after: after, limit: limit)
                #expect(page.calls.count <= limit)
                found += page.calls.map(\.callID.string)
                next = page.next
            }
            #expect(found == (1...7).map { "call\($0)" })
        }
        #expect(bench.engine.heldCalls(of: bob, orOf: ByteString("other")).count == 7)
        #expect(bench.engine.heldCalls(of: nil, orOf: ByteString("call3")).count == 1)
    }

    @Test func `a bucket is emptied but for calls that are being offered`() {
        let bench = EngineBench()
        bench.register()
        bench.invite()
        _ = bench.pass(.seconds(31))
        bench.invite(callID: "call2", branch: "i2")
        #expect(bench.engine.bucketEmptied(of: bob).count == 1)
        #expect(bench.engine.buckets.entries(of: bob).map(\.isOver) == [false])
        #expect(bench.engine.bucketEmptied(of: bob).isEmpty)
    }

    @Test func `a device is removed by its number, also one without push`() throws {
        for token in ["tok1", nil] {
            let bench = EngineBench()
            bench.register(token: token)
            let device = try #require(bench.engine.targets(of: bob, now: bench.now).first?.id)
            bench.engine.devicesWithdrawn(
                .device(BindingID(rawValue: device.rawValue + 1)), of: bob, ReportTicket(1), now: bench.now)
            #expect(bench.commitAll(in: bench.take()).isEmpty)
            #expect(bench.engine.bindings.count == 1)
            bench.engine.devicesWithdrawn(.device(device), of: bob, ReportTicket(2), now: bench.now)
            _ = bench.commitAll(in: bench.take())
            #expect(bench.engine.bindings.count == 0)
        }
    }
}
