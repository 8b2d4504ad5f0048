import Addressing
import ProxyRuntime
import Testing

@Suite("STUN Binding requests")
struct STUNBindingTests {
    private let transaction: [UInt8] = [
        0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae,
    ]

    private func request(_ type: UInt8 = 1, body: [UInt8] = [], length: Int? = nil) -> [UInt8] {
        [0, type, 0, UInt8(length ?? body.count), 0x21, 0x12, 0xa4, 0x42] + transaction + body
    }

    private func answer(_ request: [UInt8], from source: Endpoint = Endpoint(.loopbackV4, 1)) -> [UInt8]? {
        STUNBinding.answer(to: request.span, from: source)
    }

    /// Tests the addresses of RFC 5769 sections 2.2 and 2.3.
    @Test func `the answer contains the source of the request`() throws {
        let head: [UInt8] = [1, 1, 0, 12, 0x21, 0x12, 0xa4, 0x42]
        let v4 = Endpoint(IPAddress(v4: 0xc000_0201), 32853)
        #expect(
            answer(request(), from: v4) == head + transaction + [
                0, 0x20, 0, 8, 0, 1, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43,
            ])
        let v6 = Endpoint(try #require(IPAddress("2001:db8:1234:5678:11:2233:4455:6677")), 32853)
        let long = try #require(answer(request(), from: v6))
        #expect(
            long.suffix(24) == [
                0, 0x20, 0, 20, 0, 2, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc, 0x25, 0xf4,
                0xb5,
                0xbe, 0xd2, 0xb9, 0xd9,
            ])
        #expect(long[3] == 24)
    }

    @Test func `optional attributes are ignored, and unknown required ones are 420`() throws {
        #expect(answer(request(body: [0x80, 0x22, 0, 3, 97, 98, 99, 0]))?[0...1] == [1, 1])
        let refusal = try #require(answer(request(body: [0, 3, 0, 4, 0, 0, 0, 6])))
        #expect(refusal[0...1] == [1, 0x11])
        #expect(Array(refusal[20...]) == [0, 9, 0, 4, 0, 0, 4, 20, 0, 10, 0, 2, 0, 3, 0, 0])
    }

    @Test func `no answer is more than three times as long as its request, whatever the request contains`() {
        for count in 0...20 {
            let question = request(body: (0..<count).flatMap { [0, UInt8(3 + $0), 0, 0] })
            #expect((answer(question)?.count ?? 0) <= 3 * question.count)
        }
    }

    @Test func `data that is no Binding request is not answered`() {
        let wrong: [[UInt8]] = [
            request(0x11), request(2), [1] + request().dropFirst(), Array(request().dropLast()), request(length: 4),
            request(body: [0x80, 0x22, 0, 9, 0, 0, 0, 0]), request(body: [0x80, 0x22]), [], [0, 1, 0, 0],
            [0, 1, 0, 0, 0, 0, 0, 0] + transaction,
        ]
        for bytes in wrong { #expect(answer(bytes) == nil, "\(bytes)") }
    }
}
