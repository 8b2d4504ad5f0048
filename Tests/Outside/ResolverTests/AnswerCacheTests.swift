import Addressing
import Resolver
import Testing
import Timekeeping

@Suite("DNS answer cache")
struct AnswerCacheTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let question = DNSQuestion(.addresses, "a.example")
    private let answer = DNSAnswer.addresses([.loopbackV4])

    @Test(arguments: [
        (DNSAnswer.addresses([.loopbackV4]), Duration.seconds(60), Duration.seconds(60)),
        (.addresses([.loopbackV4]), .seconds(0), .seconds(1)),
        (.addresses([.loopbackV4]), .seconds(Int64(Int32.max)), .seconds(86_400)),
        (.nothing, .seconds(600), AnswerCache.negativeLifetime), (.failed, .seconds(600), AnswerCache.failureLifetime),
    ])
    func `an answer holds as long as it should and no longer`(answer: DNSAnswer, timeToLive: Duration, held: Duration) {
        var cache = AnswerCache(capacity: 4)
        cache.store(answer, to: question, timeToLive: timeToLive, now: start)
        #expect(cache.answer(to: question, now: start) == answer)
        #expect(cache.answer(to: question, now: start + (held - .nanoseconds(1))) == answer)
        #expect(cache.answer(to: question, now: start + held) == nil)
    }

    @Test func `questions differ by kind, and not by case or a final dot`() {
        var cache = AnswerCache(capacity: 4)
        cache.store(answer, to: question, timeToLive: .seconds(60), now: start)
        #expect(cache.answer(to: DNSQuestion(.addresses, "A.Example."), now: start) == answer)
        #expect(cache.answer(to: DNSQuestion(.srv, "a.example"), now: start) == nil)
    }

    @Test func `a full cache first removes expired answers, then the ones that expire next`() {
        var cache = AnswerCache(capacity: 8)
        for number in 1...8 {
            cache.store(
                answer, to: DNSQuestion(.addresses, "\(number)"), timeToLive: .seconds(Int64(number)), now: start)
        }
        #expect(cache.count == 8)
        cache.store(answer, to: DNSQuestion(.addresses, "8"), timeToLive: .seconds(8), now: start)
        #expect(cache.count == 8)
        cache.store(answer, to: question, timeToLive: .seconds(9), now: start)
        #expect(cache.count == 8)
        #expect(cache.answer(to: DNSQuestion(.addresses, "1"), now: start) == nil)
        #expect(cache.answer(to: DNSQuestion(.addresses, "2"), now: start) == answer)
        cache.store(answer, to: DNSQuestion(.addresses, "b"), timeToLive: .seconds(9), now: start + .seconds(6))
        #expect(cache.count == 4)
    }
}
