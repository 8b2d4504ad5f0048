import LoopTesting
import Resolver
import Testing

@Suite("DNS message")
struct DNSMessageTests {
    private func timeToLive(_ message: [UInt8]) -> UInt32 { DNSMessage.timeToLive(message.span) }

    @Test func `the shortest time among the answers counts`() {
        var message = FakeMessage(question: "_sip._udp.a.example", type: 33)
        message.add(.srv(priority: 1, weight: 2, port: 3, target: "b.example"), timeToLive: 300)
        message.add(.srv(priority: 1, weight: 2, port: 3, target: "c.example"), timeToLive: 20)
        message.add(.srv(priority: 1, weight: 2, port: 3, target: "d.example"), timeToLive: 100)
        #expect(timeToLive(message.bytes) == 20)
    }

    @Test func `a time with the highest bit set is ignored`() {
        var message = FakeMessage(question: "a", type: 1)
        message.add(.a(1), timeToLive: 0x8000_0001)
        #expect(timeToLive(message.bytes) == 0)
    }

    @Test func `a message without answers, cut anywhere or with any byte changed does no harm`() {
        #expect(timeToLive(FakeMessage(question: "a", type: 1).bytes) == 0)
        var message = FakeMessage(question: "a.example", type: 1)
        message.add(.a(1), timeToLive: 300)
        #expect(timeToLive(message.bytes) == 300)
        for count in 0..<message.bytes.count { #expect(timeToLive(Array(message.bytes.prefix(count))) == 0) }
        for index in message.bytes.indices {
            for value: UInt8 in [0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
                var changed = message.bytes
                changed[index] = value
                _ = timeToLive(changed)
            }
        }
    }
}
