import Addressing
import ProxyCore
import SIPGrammar
import SIPMessage
import Telemetry
import Testing
import TestSupport
import Timekeeping

@Suite("A daemon with too much load")
struct OverloadTests {
    /// Tells the engine that its work waits for a second, so that the engine refuses as many requests as the rules for
    /// overload allow.
    private func overload(_ bench: EngineBench) {
        for _ in 0..<80 {
            _ = bench.pass(.milliseconds(10))
            bench.engine.looked(after: .seconds(1), now: bench.now.instant)
        }
    }

    @Test func `new work gets 503 with a time to come again, and nothing is kept`() throws {
        let bench = EngineBench.registered()
        overload(bench)
        #expect(story(bench.register(user: "carl", callID: "r9")) == ["503 register > phone"])
        // During overload, the daemon serves one REGISTER in five.
        let refreshes = (1...100).map { story(bench.register(callID: "f\($0)", cseq: 5)) }
        #expect((50..<100).contains(refreshes.count { $0 == ["503 register > phone"] }))
        var (refused, times) = (0, Set<Int>())
        for number in 1...200 {
            let before = bench.engine.figures[.transactions]
            let answer = bench.invite(callID: "new\(number)", branch: "n\(number)")
            // During overload, the daemon serves one call in ten.
            guard story(answer) == ["503 invite > pbx"] else { continue }
            refused += 1
            #expect(bench.engine.figures[.transactions] == before)
            let text = try #require(answer.texts.first)
            let range = try #require(text.firstRange(of: "\r\nRetry-After: "))
            times.insert(try #require(Int(text[range.upperBound...].prefix { $0.isNumber })))
        }
        #expect((150..<200).contains(refused))
        // The Retry-After values are spread over the whole range, so that the clients do not return at the same moment.
        #expect(times.allSatisfy { 5...120 ~= $0 } && times.count > 70)
        #expect(times.contains { $0 < 20 } && times.contains { $0 > 105 })
    }

    @Test func `a call that waits is served to its end: its phone's REGISTER, its answer, and a CANCEL of another`()
        throws
    {
        let bench = EngineBench.registered()
        bench.register(user: "carl", callID: "r7", from: Endpoint(IPAddress(v4: 0xc000_0207), 40_000))
        bench.invite()
        bench.invite(to: "carl", callID: "call2", branch: "i2")
        overload(bench)
        // The daemon does not refuse an INVITE that the caller repeats because its 100 was lost.
        #expect(story(bench.invite()) == ["100 invite > pbx"])
        let invite = try #require(sentRequest(bench.register(cseq: 2)))
        #expect(invite.method == .invite)
        let answer = bench.receive(SIPText.response(200, to: invite, tag: "b", contact: "sip:bob@10.1.1.1"))
        #expect(story(answer).contains("200 invite > pbx"))
        #expect(story(bench.cancel(callID: "call1", branch: "i1")).contains("200 cancel > pbx"))
        #expect(bench.engine.heldCalls.count == 1)
    }

    @Test func `a client that is admitted before its REGISTER is read is also admitted after it`() {
        let bench = EngineBench.registered()
        overload(bench)
        var admitted = 0
        for number in 1...200 {
            let text = bench.registerText(callID: "g\(number)", cseq: 7)
            let refusal = MessageReader().glance(at: text.span).flatMap {
                bench.engine.refusal(of: $0, in: text.span, from: EngineBench.phone, now: bench.now.instant)
            }
            let isRefused = story(bench.receive(text)) == ["503 register > phone"]
            #expect((refusal != nil) == isRefused)
            if !isRefused { admitted += 1 }
        }
        #expect((10...80).contains(admitted))
    }

    @Test func `two seconds after the load all is served again`() {
        let bench = EngineBench.registered()
        overload(bench)
        let stories = (1...40).map { story(bench.invite(callID: "many\($0)", branch: "m\($0)")) }
        #expect(stories.contains(["503 invite > pbx"]))
        _ = bench.pass(.milliseconds(2200))
        #expect(story(bench.invite(callID: "call2", branch: "i2")).contains("100 invite > pbx"))
    }

    @Test func `the log has a line at the beginning and one at the end, even without new requests`() {
        let sink = MemoryLogSink()
        let bench = EngineBench(log: Log(level: .notice, format: .text, sink: sink) { UnixTime(seconds: 0) })
        overload(bench)
        let refused = (1...40).count {
            story(bench.invite(callID: "call\($0)", branch: "i\($0)")) == ["503 invite > pbx"]
        }
        #expect(sink.lines.count { $0.contains("the daemon is overloaded and refuses new requests") } == 1)
        #expect(!sink.lines.contains { $0.contains("no longer") })
        _ = bench.pass(.seconds(5))
        #expect(
            sink.lines.count {
                $0.contains("the daemon is no longer overloaded and accepts new requests")
                    && $0.contains("count=\(refused)")
            } == 1)
    }
}
